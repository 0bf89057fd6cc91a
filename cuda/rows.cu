// Kernels that move or add whole rows.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// y[i] = the element of x at the same multi-index; sizes are y's, steps are the strides of y's axes
// in x. Index is wide enough for the number of elements.
template <typename Index, typename T>
void permute_by(Context& ctx, const PermuteShape& shape, const T* x, T* y) {
  const Index inner = static_cast<Index>(shape.inner);
  Index stride[4], size[4], step[4], below = inner;
  for (int axis = 3; axis >= 0; --axis) {
    stride[axis] = below;
    below *= static_cast<Index>(shape.size[axis]);
  }
  for (int axis = 0; axis < 4; ++axis) {
    size[axis] = static_cast<Index>(shape.size[shape.axis[axis]]);
    step[axis] = stride[shape.axis[axis]];
  }
  for_each(ctx, static_cast<int64_t>(below), [=] __device__(int64_t i) {
    Index rest = static_cast<Index>(i), from = rest % inner;
    rest /= inner;
#pragma unroll
    for (int axis = 3; axis > 0; --axis) {
      from += rest % size[axis] * step[axis];
      rest /= size[axis];
    }
    y[i] = x[from + rest * step[0]];
  });
}

}  // namespace

template <typename T>
void add_rows(Context& ctx, const T* x, const T* row, T* y, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_column(ctx, R, C, [=] __device__(int64_t r, int64_t c) {
    y[r * C + c] = T(A(x[r * C + c]) + A(row[c]));
  });
}

template <typename T>
void sum_rows(Context& ctx, const T* x, T* y, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  sum_columns_of(ctx, {1, R, C}, x,
                 [=] __device__(int64_t, int64_t c, const A* total) { y[c] = T(total[0]); });
}

template <typename T>
void permute(Context& ctx, const PermuteShape& shape, const T* x, T* y) {
  int64_t count = shape.inner;
  for (const int64_t size : shape.size) count *= size;
  if (count <= INT32_MAX)
    permute_by<uint32_t>(ctx, shape, x, y);
  else
    permute_by<int64_t>(ctx, shape, x, y);
}

template <typename T>
void copy_rows(Context& ctx, HeadRows<const T> x, HeadRows<T> y, int64_t BH, int64_t S,
               int64_t width) {
  for_each_team(ctx, BH * S, width, [=] __device__(auto team, int64_t r) {
    const T* from = x.at(r / S, r % S);
    T* to = y.at(r / S, r % S);
    for (int64_t c = team.rank(); c < width; c += team.kThreads) to[c] = from[c];
  });
}

template <typename T>
void clear_padding(Context& ctx, const ValidKeys& valid, T* x, int64_t BH, int64_t S, int64_t C,
                   int64_t first) {
  for_each_team(ctx, BH * S, C, [=] __device__(auto team, int64_t r) {
    if (first + r % S < valid_keys(valid, r / S, first + S)) return;
    for (int64_t c = team.rank(); c < C; c += team.kThreads) x[r * C + c] = T(0.0f);
  });
}

template <typename T>
void mask_causal(Context& ctx, const T* x, T* y, int64_t R, int64_t N, double value) {
  const T hidden = T(value);
  for_each_column(ctx, R, N, [=] __device__(int64_t r, int64_t c) {
    y[r * N + c] = c <= r % N ? x[r * N + c] : hidden;
  });
}

// Summed in double, because the gradient of a gate is the difference of long sums of both signs.
// One warp per row of any length, 32 elements at a time.
template <typename T>
void reverse_cumsum(Context& ctx, const T* x, T* y, int64_t R, int64_t n, double* totals) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, kWarp, [=] __device__(auto team, int64_t r) {
    double after = totals == nullptr ? 0 : totals[r];  // the sum of all elements after these 32
    for (int64_t end = n; end > 0; end -= kWarp) {
      const int64_t t = end - 1 - team.rank();
      const double sum =
          after + warp_running_sum(t >= 0 ? static_cast<double>(A(x[r * n + t])) : 0.0);
      if (t >= 0) y[r * n + t] = T(sum);
      after = __shfl_sync(kWholeWarp, sum, kWarp - 1);
    }
    team.sync();  // all lanes have read totals
    if (totals != nullptr && team.rank() == 0) totals[r] = after;
  });
}

LINEA_KERNEL_TABLE(RowKernels, .add_rows = add_rows<T>, .sum_rows = sum_rows<T>,
                   .permute = permute<T>, .copy_rows = copy_rows<T>,
                   .clear_padding = clear_padding<T>, .mask_causal = mask_causal<T>,
                   .reverse_cumsum = reverse_cumsum<T>)

}  // namespace linea::cuda

// Kernels that copy or add whole rows.
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {

template <typename T>
void add_rows(Context& ctx, const T* x, const T* row, T* y, int64_t R, int64_t C) {
  parallel_rows(ctx, R, C, [&](int64_t r) {
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) y[r * C + c] = x[r * C + c] + row[c];
  });
}

// Each thread sums its own columns over all rows, in blocks of a few cache lines: the same order of
// additions at any number of threads.
template <typename T>
void sum_rows(Context& ctx, const T* x, T* y, int64_t R, int64_t C) {
  constexpr int64_t kBlock = 64;
  const int64_t blocks = (C + kBlock - 1) / kBlock;
  parallel_rows(ctx, blocks, R * kBlock, [&](int64_t block) {
    const int64_t begin = block * kBlock, width = std::min(kBlock, C - begin);
    T total[kBlock] = {};
    for (int64_t r = 0; r < R; ++r) add_row(x + r * C + begin, total, width, T(1));
    std::copy(total, total + width, y + begin);
  });
}

template <typename T>
void permute(Context& ctx, const PermuteShape& shape, const T* x, T* y) {
  int64_t stride[4], size[4], step[4];
  int64_t below = shape.inner;
  for (int axis = 3; axis >= 0; --axis) {
    stride[axis] = below;
    below *= shape.size[axis];
  }
  for (int axis = 0; axis < 4; ++axis) {
    size[axis] = shape.size[shape.axis[axis]];
    step[axis] = stride[shape.axis[axis]];
  }
  const int64_t inner = shape.inner;
  parallel_rows(ctx, size[0] * size[1], size[2] * size[3] * (inner + 4), [&](int64_t outer) {
    const T* from = x + outer / size[1] * step[0] + outer % size[1] * step[1];
    T* to = y + outer * size[2] * size[3] * inner;
    for (int64_t i = 0; i < size[2]; ++i)
      for (int64_t j = 0; j < size[3]; ++j, to += inner)
        std::copy_n(from + i * step[2] + j * step[3], inner, to);
  });
}

template <typename T>
void copy_rows(Context& ctx, HeadRows<const T> x, HeadRows<T> y, int64_t BH, int64_t S,
               int64_t width) {
  parallel_rows(ctx, BH, S * width, [&](int64_t p) {
    for (int64_t i = 0; i < S; ++i) std::copy_n(x.at(p, i), width, y.at(p, i));
  });
}

template <typename T>
void clear_padding(Context& ctx, const ValidKeys& valid, T* x, int64_t BH, int64_t S, int64_t C,
                   int64_t first) {
  parallel_rows(ctx, BH, S * C, [&](int64_t p) {
    const int64_t num_valid = std::clamp<int64_t>(valid_keys(valid, p, first + S) - first, 0, S);
    std::fill(x + (p * S + num_valid) * C, x + (p + 1) * S * C, T(0));
  });
}

template <typename T>
void mask_causal(Context& ctx, const T* x, T* y, int64_t R, int64_t N, double value) {
  parallel_rows(ctx, R, N, [&](int64_t r) {
    const int64_t seen = r % N + 1;
    std::copy_n(x + r * N, seen, y + r * N);
    std::fill(y + r * N + seen, y + (r + 1) * N, static_cast<T>(value));
  });
}

// Summed in double: the gradient of a gate is the small remainder of a long sum with both signs.
template <typename T>
void reverse_cumsum(Context& ctx, const T* x, T* y, int64_t R, int64_t n, double* totals) {
  parallel_rows(ctx, R, n, [&](int64_t r) {
    double total = totals == nullptr ? 0 : totals[r];
    for (int64_t t = n - 1; t >= 0; --t)
      y[r * n + t] = static_cast<T>(total += static_cast<double>(x[r * n + t]));
    if (totals != nullptr) totals[r] = total;
  });
}

LINEA_KERNEL_TABLE(RowKernels, .add_rows = add_rows<T>, .sum_rows = sum_rows<T>,
                   .permute = permute<T>, .copy_rows = copy_rows<T>,
                   .clear_padding = clear_padding<T>, .mask_causal = mask_causal<T>,
                   .reverse_cumsum = reverse_cumsum<T>)

}  // namespace linea::cpu

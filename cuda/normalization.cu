// Kernels that normalize rows, each with its backward below. One team per row. Rows are read again
// after each reduction rather than stored in the storage type in between.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/row_norm.h"

namespace linea::cuda {

// y = weight (x - mean) scale + bias, scale = 1 / sqrt(variance + 1e-5).   (Ba 2016)
template <typename T>
void layer_norm(Context& ctx, const T* x, const T* weight, const T* bias, T* y,
                Accumulator<T>* mean, Accumulator<T>* scale, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T* from = x + r * C;
    const auto norm = RowNorm<A>::of(team, C, [&](int64_t c) { return A(from[c]); });
    if (team.rank() == 0) {
      mean[r] = norm.mean;
      scale[r] = norm.scale;
    }
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      y[r * C + c] =
          T(norm.of_element(A(from[c]), A(weight[c]), bias == nullptr ? A(0) : A(bias[c])));
  });
}

// With n = (x - mean) scale and g = weight dy:  dx = scale (g - avg(g) - n avg(g n)),
// dweight = sum over rows of dy n, dbias = sum over rows of dy.
template <typename T>
void layer_norm_backward(Context& ctx, const T* x, const T* weight, const Accumulator<T>* mean,
                         const Accumulator<T>* scale, const T* dy, T* dx, T* dweight, T* dbias,
                         int64_t R, int64_t C) {
  using A = Accumulator<T>;
  sum_columns<2, T>(
      ctx, {1, R, C}, rows_are_wide<T>(C, {x, dy}),
      [=] __device__(auto width, int64_t, int64_t r, int64_t c, A* totals) {
        const auto row = load_elements<T, width>(x + r * C + c),
                   grad = load_elements<T, width>(dy + r * C + c);
        const A center = mean[r], s = scale[r];
        for (int e = 0; e < width; ++e) {
          totals[e] += grad.at(e) * ((row.at(e) - center) * s);
          totals[width + e] += grad.at(e);
        }
      },
      [=] __device__(int64_t, int64_t c, const A* totals) {
        dweight[c] = T(totals[0]);
        if (dbias != nullptr) dbias[c] = T(totals[1]);
      });
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T *from = x + r * C, *dto = dy + r * C;
    const A center = mean[r], s = scale[r];
    A sum_g = 0, sum_gn = 0;
    for (int64_t c = team.rank(); c < C; c += team.kThreads) {
      const A n = (A(from[c]) - center) * s, g = A(weight[c]) * A(dto[c]);
      sum_g += g;
      sum_gn += g * n;
    }
    const A average_g = team.sum(sum_g) / static_cast<A>(C),
            average_gn = team.sum(sum_gn) / static_cast<A>(C);
    for (int64_t c = team.rank(); c < C; c += team.kThreads) {
      const A n = (A(from[c]) - center) * s, g = A(weight[c]) * A(dto[c]);
      dx[r * C + c] = T(s * (g - average_g - n * average_gn));
    }
  });
}

// y = exp(x - max x) / sum exp(x - max x), row by row; a row of only -inf gives zeros.
template <typename T>
void softmax(Context& ctx, const T* x, T* y, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T* from = x + r * C;
    A largest = kNothing<A>;
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      largest = Largest{}(largest, A(from[c]));
    largest = team.max(largest);
    const A shift = largest == kNothing<A> ? A(0) : largest;
    const A inverse = reciprocal_or_zero(
        row_sum<A>(team, C, [&](int64_t c) { return exp_of(A(from[c]) - shift); }));
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      y[r * C + c] = T(exp_of(A(from[c]) - shift) * inverse);
  });
}

// dx = factor (dy - sum(dy y)), factor(r, y)
template <typename T, typename Factor>
void row_gradients(Context& ctx, const T* y, const T* dy, T* dx, int64_t R, int64_t C,
                   const Factor& factor) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T *out = y + r * C, *dout = dy + r * C;
    const A along = row_sum<A>(team, C, [&](int64_t c) { return A(out[c]) * A(dout[c]); });
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      dx[r * C + c] = T(factor(r, A(out[c])) * (A(dout[c]) - along));
  });
}

// dx = y (dy - sum(dy y))
template <typename T>
void softmax_backward(Context& ctx, const T* y, const T* dy, T* dx, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  row_gradients(ctx, y, dy, dx, R, C, [=] __device__(int64_t, A out) { return out; });
}

// y = x / s, s = sum of the row; 0 if s is exactly 0.
template <typename T>
void normalize(Context& ctx, const T* x, T* y, Accumulator<T>* sums, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const A sum = row_sum<A>(team, C, [&](int64_t c) { return A(x[r * C + c]); });
    if (team.rank() == 0) sums[r] = sum;
    const A inverse = reciprocal_or_zero(sum);
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      y[r * C + c] = T(A(x[r * C + c]) * inverse);
  });
}

// dx = (dy - sum(dy y)) / s
template <typename T>
void normalize_backward(Context& ctx, const T* y, const Accumulator<T>* sums, const T* dy, T* dx,
                        int64_t R, int64_t C) {
  using A = Accumulator<T>;
  row_gradients(ctx, y, dy, dx, R, C,
                [=] __device__(int64_t r, A) { return reciprocal_or_zero(sums[r]); });
}

LINEA_KERNEL_TABLE(NormalizationKernels, .layer_norm = layer_norm<T>,
                   .layer_norm_backward = layer_norm_backward<T>, .softmax = softmax<T>,
                   .softmax_backward = softmax_backward<T>, .normalize = normalize<T>,
                   .normalize_backward = normalize_backward<T>,
                   .unit_rows = NoKernel<"unit_rows">(),
                   .unit_rows_backward = NoKernel<"unit_rows_backward">())

}  // namespace linea::cuda

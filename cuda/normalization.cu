// Kernels that normalize rows, each with its backward below. One team per row. Rows are read again
// after each reduction rather than stored in the storage type in between.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/wide_rows.h"

namespace linea::cuda {

// y = weight (x - mean) scale + bias, scale = 1 / sqrt(variance + 1e-5).   (Ba 2016)
template <typename T>
void layer_norm(Context& ctx, const T* x, const T* weight, const T* bias, T* y,
                Accumulator<T>* mean, Accumulator<T>* scale, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  const bool biased = bias != nullptr;
  for_each_wide_row(
      ctx, R, C, are_aligned(x, weight, bias, y), [=] __device__(auto row, int64_t r) {
        const T* const from = x + r * C;
        const A count = static_cast<A>(C);
        const A center = MathFor<T>::quotient(row.total([](A v) { return v; }, from), count);
        const auto square = [=](A v) { return (v - center) * (v - center); };
        const A s = inverse_root<T>(row.total(square, from), count, kLayerNormEpsilon);
        if (row.leads()) {
          mean[r] = center;
          scale[r] = s;
        }
        row.each([=](A v, A w, A b, A& out) { out = w * ((v - center) * s) + (biased ? b : A(0)); },
                 from, weight, biased ? bias : weight, y + r * C);
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
  for_each_wide_row(ctx, R, C, are_aligned(x, weight, dy, dx), [=] __device__(auto row, int64_t r) {
    const T *from = x + r * C, *dto = dy + r * C;
    const A center = mean[r], s = scale[r], count = static_cast<A>(C);
    A sum_g = 0, sum_gn = 0;
    const auto add = [&](A v, A w, A dv) {
      const A n = (v - center) * s, g = w * dv;
      sum_g += g;
      sum_gn += g * n;
    };
    row.each(add, from, weight, dto);
    const A average_g = MathFor<T>::quotient(row.sum(sum_g), count),
            average_gn = MathFor<T>::quotient(row.sum(sum_gn), count);
    const auto grad = [=](A v, A w, A dv, A& out) {
      const A n = (v - center) * s, g = w * dv;
      out = s * (g - average_g - n * average_gn);
    };
    row.each(grad, from, weight, dto, dx + r * C);
  });
}

// y = exp(x - max x) / sum exp(x - max x), row by row; a row of only -inf gives zeros.
template <typename T>
void softmax(Context& ctx, const T* x, T* y, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_wide_row(ctx, R, C, are_aligned(x, y), [=] __device__(auto row, int64_t r) {
    const T* const from = x + r * C;
    const A largest = row.largest(from), shift = largest == kNothing<A> ? A(0) : largest;
    const auto share = [=](A v) { return MathFor<T>::exp(v - shift); };
    const A inverse = reciprocal_or_zero(row.total(share, from));
    row.each([=](A v, A& out) { out = share(v) * inverse; }, from, y + r * C);
  });
}

// dx = f (dy - sum(dy y)), f = 1 / s of the row, or y without sums
template <typename T>
void row_gradients(Context& ctx, const T* y, const Accumulator<T>* sums, const T* dy, T* dx,
                   int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_wide_row(ctx, R, C, are_aligned(y, dy, dx), [=] __device__(auto row, int64_t r) {
    const T *out = y + r * C, *dout = dy + r * C;
    const bool summed = sums != nullptr;
    const A inverse = summed ? reciprocal_or_zero(sums[r]) : A(0);
    const A along = row.total([](A v, A dv) { return v * dv; }, out, dout);
    row.each([=](A v, A dv, A& grad) { grad = (summed ? inverse : v) * (dv - along); }, out, dout,
             dx + r * C);
  });
}

// dx = y (dy - sum(dy y))
template <typename T>
void softmax_backward(Context& ctx, const T* y, const T* dy, T* dx, int64_t R, int64_t C) {
  row_gradients<T>(ctx, y, nullptr, dy, dx, R, C);
}

// y = x / s, s = sum of the row; 0 if s is exactly 0.
template <typename T>
void normalize(Context& ctx, const T* x, T* y, Accumulator<T>* sums, int64_t R, int64_t C) {
  using A = Accumulator<T>;
  for_each_wide_row(ctx, R, C, are_aligned(x, y), [=] __device__(auto row, int64_t r) {
    const A sum = row.total([](A v) { return v; }, x + r * C);
    if (row.leads()) sums[r] = sum;
    const A inverse = reciprocal_or_zero(sum);
    row.each([=](A v, A& out) { out = v * inverse; }, x + r * C, y + r * C);
  });
}

// dx = (dy - sum(dy y)) / s
template <typename T>
void normalize_backward(Context& ctx, const T* y, const Accumulator<T>* sums, const T* dy, T* dx,
                        int64_t R, int64_t C) {
  row_gradients(ctx, y, sums, dy, dx, R, C);
}

LINEA_KERNEL_TABLE(NormalizationKernels, .layer_norm = layer_norm<T>,
                   .layer_norm_backward = layer_norm_backward<T>, .softmax = softmax<T>,
                   .softmax_backward = softmax_backward<T>, .normalize = normalize<T>,
                   .normalize_backward = normalize_backward<T>,
                   .unit_rows = NoKernel<"unit_rows">(),
                   .unit_rows_backward = NoKernel<"unit_rows_backward">())

}  // namespace linea::cuda

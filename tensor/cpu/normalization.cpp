// Normalization of rows, each kernel followed by its backward.
#include <cmath>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {
// y = weight (x - mean) scale + bias, scale = 1 / sqrt(variance + 1e-5).   (Ba 2016)
template <typename T>
void layer_norm(Context& ctx, const T* x, const T* weight, const T* bias, T* y, T* mean, T* scale,
                int64_t R, int64_t C) {
  parallel_rows(ctx, R, 4 * C, [&](int64_t r) {
    const T* from = x + r * C;
    T* to = y + r * C;
    const T center = sum(from, C) / static_cast<T>(C);
    T variance = 0;
#pragma omp simd reduction(+ : variance)
    for (int64_t c = 0; c < C; ++c) variance += (from[c] - center) * (from[c] - center);
    const T s = T(1) / std::sqrt(variance / static_cast<T>(C) + static_cast<T>(kLayerNormEpsilon));
    mean[r] = center;
    scale[r] = s;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) to[c] = weight[c] * ((from[c] - center) * s);
    if (bias != nullptr) add_row(bias, to, C, T(1));
  });
}

// With n = (x - mean) scale and g = weight dy:  dx = scale (g - avg(g) - n avg(g n)),
// dweight = sum over rows of dy n, dbias = sum over rows of dy.
template <typename T>
void layer_norm_backward(Context& ctx, const T* x, const T* weight, const T* mean, const T* scale,
                         const T* dy, T* dx, T* dweight, T* dbias, int64_t R, int64_t C) {
  const Workspace<T> total(ctx, 2 * C);
  sum_over_rows(ctx, R, 2 * C, 8 * C, total.data(), [&](int64_t r, T* sums) {
    const T *from = x + r * C, *dto = dy + r * C;
    const T center = mean[r], s = scale[r];
    T sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
    for (int64_t c = 0; c < C; ++c) {
      const T n = (from[c] - center) * s;
      sum_g += weight[c] * dto[c];
      sum_gn += weight[c] * dto[c] * n;
    }
    const T average_g = sum_g / static_cast<T>(C), average_gn = sum_gn / static_cast<T>(C);
    T* dfrom = dx + r * C;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) {
      const T n = (from[c] - center) * s;
      dfrom[c] = s * (weight[c] * dto[c] - average_g - n * average_gn);
      sums[c] += dto[c] * n;
      sums[C + c] += dto[c];
    }
  });
  std::copy_n(total.data(), C, dweight);
  if (dbias != nullptr) std::copy_n(total.data() + C, C, dbias);
}

// y = exp(x - max x) / sum exp(x - max x) of each row; a row of -inf only gives 0.
template <typename T>
void softmax(Context& ctx, const T* x, T* y, int64_t R, int64_t C) {
  parallel_rows(ctx, R, 16 * C, [&](int64_t r) {
    const T* from = x + r * C;
    T* to = y + r * C;
    const T top = largest(from, C), shift = top == kNothing<T> ? T(0) : top;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) to[c] = exp_below(from[c] - shift);
    scale_row(to, C, reciprocal_or_zero(sum(to, C)));
  });
}

// dx = y (dy - sum(dy y))
template <typename T>
void softmax_backward(Context& ctx, const T* y, const T* dy, T* dx, int64_t R, int64_t C) {
  parallel_rows(ctx, R, 4 * C, [&](int64_t r) {
    const T *out = y + r * C, *dout = dy + r * C;
    const T along = dot(out, dout, C);
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) dx[r * C + c] = out[c] * (dout[c] - along);
  });
}

// y = x / s, s = sum of the row; 0 where s is exactly 0.
template <typename T>
void normalize(Context& ctx, const T* x, T* y, T* sums, int64_t R, int64_t C) {
  parallel_rows(ctx, R, 2 * C, [&](int64_t r) {
    sums[r] = sum(x + r * C, C);
    copy_scaled(x + r * C, y + r * C, C, reciprocal_or_zero(sums[r]));
  });
}

// dx = (dy - sum(dy y)) / s
template <typename T>
void normalize_backward(Context& ctx, const T* y, const T* sums, const T* dy, T* dx, int64_t R,
                        int64_t C) {
  parallel_rows(ctx, R, 4 * C, [&](int64_t r) {
    const T along = dot(y + r * C, dy + r * C, C), inverse = reciprocal_or_zero(sums[r]);
    for (int64_t c = 0; c < C; ++c) dx[r * C + c] = (dy[r * C + c] - along) * inverse;
  });
}

// y = length x / |x|, 0 for a row of zeros; the largest |x| is taken out, so that no square leaves the
// range.
template <typename T>
void unit_rows(Context& ctx, const T* x, T* y, T* scales, int64_t R, int64_t C, double length) {
  parallel_rows(ctx, R, 4 * C, [&](int64_t r) {
    const T* from = x + r * C;
    T top = 0, squares = 0;
#pragma omp simd reduction(max : top)
    for (int64_t c = 0; c < C; ++c) top = std::abs(from[c]) > top ? std::abs(from[c]) : top;
    const T inverse = reciprocal_or_zero(top);
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < C; ++c) squares += (from[c] * inverse) * (from[c] * inverse);
    scales[r] = squares == T(0) ? T(0) : static_cast<T>(length) * (inverse / std::sqrt(squares));
    copy_scaled(from, y + r * C, C, scales[r]);
  });
}

// dx = (dy - y (dy . y) / length^2) length / |x|
template <typename T>
void unit_rows_backward(Context& ctx, const T* y, const T* scales, const T* dy, T* dx, int64_t R,
                        int64_t C, double length) {
  parallel_rows(ctx, R, 4 * C, [&](int64_t r) {
    const T along =
        dot(y + r * C, dy + r * C, C) / (static_cast<T>(length) * static_cast<T>(length));
    for (int64_t c = 0; c < C; ++c)
      dx[r * C + c] = (dy[r * C + c] - y[r * C + c] * along) * scales[r];
  });
}

LINEA_KERNEL_TABLE(NormalizationKernels, .layer_norm = layer_norm<T>,
                   .layer_norm_backward = layer_norm_backward<T>, .softmax = softmax<T>,
                   .softmax_backward = softmax_backward<T>, .normalize = normalize<T>,
                   .normalize_backward = normalize_backward<T>, .unit_rows = unit_rows<T>,
                   .unit_rows_backward = unit_rows_backward<T>)

}  // namespace linea::cpu

// Random features (nn/attention/performer.cpp) except for plain matrix products: rows x of D, rows
// of F.
#include <cmath>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

template <typename T>
T square_norm(const T* x, int64_t D) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t d = 0; d < D; ++d) total += x[d] * x[d];
  return total;
}

// Products of rows with their head's omega [F,D], or with its transpose.
GemmShape products(const HeadShape& shape, bool transposed, double scale) {
  const int64_t F = shape.features, D = shape.key_size;
  GemmShape gemm;
  gemm.transpose_b = !transposed;
  gemm.rows = shape.rows;
  gemm.cols = transposed ? D : F;
  gemm.inner = transposed ? F : D;
  gemm.batch = shape.batch_heads;
  gemm.stride_a = gemm.rows * gemm.inner;
  gemm.stride_b = F * D;
  gemm.stride_c = gemm.rows * gemm.cols;
  gemm.alpha = scale;
  gemm.first_b = shape.first_bh;
  gemm.period_b = shape.heads;
  return gemm;
}

}  // namespace

template <typename T>
void random_logs(Context& ctx, const HeadShape& shape, const T* x, const T* omega, double scale,
                 T* u) {
  const int64_t F = shape.features, D = shape.key_size;
  matrix_kernels<T>().gemm(ctx, products(shape, false, scale), x, omega, u);
  parallel_ranges(ctx, shape.batch_heads * shape.rows, D + F, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T norm = static_cast<T>(scale * scale / 2) * square_norm(x + r * D, D);
      T* row = u + r * F;
#pragma omp simd
      for (int64_t f = 0; f < F; ++f) row[f] -= norm;
    }
  });
}

template <typename T>
void random_logs_backward(Context& ctx, const HeadShape& shape, const T* x, const T* du,
                          const T* omega, double scale, T* dx) {
  const int64_t F = shape.features, D = shape.key_size;
  matrix_kernels<T>().gemm(ctx, products(shape, true, scale), du, omega, dx);
  parallel_ranges(ctx, shape.batch_heads * shape.rows, D + F, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      T total = 0;
      const T* row = du + r * F;
#pragma omp simd reduction(+ : total)
      for (int64_t f = 0; f < F; ++f) total += row[f];
      total *= static_cast<T>(-scale * scale);
      for (int64_t d = 0; d < D; ++d) dx[r * D + d] += total * x[r * D + d];
    }
  });
}

template <typename T>
void square_norms(Context& ctx, const T* x, T* w, double factor, int64_t R, int64_t D) {
  parallel_ranges(ctx, R, D, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      w[r] = static_cast<T>(factor) * square_norm(x + r * D, D);
  });
}

template <typename T>
void square_norms_backward(Context& ctx, const T* x, const T* dw, T* dx, double factor, int64_t R,
                           int64_t D) {
  parallel_ranges(ctx, R, D, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T grad = static_cast<T>(2 * factor) * dw[r];
      for (int64_t d = 0; d < D; ++d) dx[r * D + d] += grad * x[r * D + d];
    }
  });
}

template <typename T>
void sine_cosine(Context& ctx, const T* u, T* y, int64_t R, int64_t n) {
  parallel_ranges(ctx, R, 40 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t i = 0; i < n; ++i) {
        y[2 * r * n + i] = std::sin(u[r * n + i]);
        y[2 * r * n + n + i] = std::cos(u[r * n + i]);
      }
  });
}

// d sin = cos du, d cos = -sin du
template <typename T>
void sine_cosine_backward(Context& ctx, const T* y, const T* dy, T* du, int64_t R, int64_t n) {
  parallel_ranges(ctx, R, 4 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T *sine = y + 2 * r * n, *cosine = sine + n, *dsine = dy + 2 * r * n,
              *dcosine = dsine + n;
      for (int64_t i = 0; i < n; ++i) du[r * n + i] = cosine[i] * dsine[i] - sine[i] * dcosine[i];
    }
  });
}

template <typename T>
RandomFeatureKernels<T> random_feature_kernels() {
  return {.random_logs = random_logs<T>,
          .random_logs_backward = random_logs_backward<T>,
          .square_norms = square_norms<T>,
          .square_norms_backward = square_norms_backward<T>,
          .sine_cosine = sine_cosine<T>,
          .sine_cosine_backward = sine_cosine_backward<T>};
}
template RandomFeatureKernels<float> random_feature_kernels();
template RandomFeatureKernels<double> random_feature_kernels();

}  // namespace linea::cpu

// Random features (nn/attention/performer.cpp) except for plain matrix products: rows x of D, rows
// of F.
#include <cmath>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {

template <typename T>
void random_logs(Context& ctx, const HeadShape& shape, const T* x, const T* omega, double scale,
                 T* u) {
  const int64_t F = shape.features, D = shape.key_size;
  kernels_of<MatrixKernels<T>>().gemm(ctx, shape.product(true, scale, true), x, omega, u);
  parallel_rows(ctx, shape.batch_heads * shape.rows, D + F, [&](int64_t r) {
    const T norm = static_cast<T>(scale * scale / 2) * dot(x + r * D, x + r * D, D);
    T* row = u + r * F;
#pragma omp simd
    for (int64_t f = 0; f < F; ++f) row[f] -= norm;
  });
}

template <typename T>
void random_logs_backward(Context& ctx, const HeadShape& shape, const T* x, const T* du,
                          const T* omega, double scale, T* dx) {
  const int64_t F = shape.features, D = shape.key_size;
  kernels_of<MatrixKernels<T>>().gemm(ctx, shape.product(false, scale, true), du, omega, dx);
  parallel_rows(ctx, shape.batch_heads * shape.rows, D + F, [&](int64_t r) {
    add_row(x + r * D, dx + r * D, D, sum(du + r * F, F) * static_cast<T>(-scale * scale));
  });
}

template <typename T>
void sine_cosine(Context& ctx, const T* u, T* y, int64_t R, int64_t n) {
  parallel_rows(ctx, R, 40 * n, [&](int64_t r) {
    for (int64_t i = 0; i < n; ++i) {
      y[2 * r * n + i] = std::sin(u[r * n + i]);
      y[2 * r * n + n + i] = std::cos(u[r * n + i]);
    }
  });
}

// d sin = cos du, d cos = -sin du
template <typename T>
void sine_cosine_backward(Context& ctx, const T* y, const T* dy, T* du, int64_t R, int64_t n) {
  parallel_rows(ctx, R, 4 * n, [&](int64_t r) {
    const T *sine = y + 2 * r * n, *cosine = sine + n, *dsine = dy + 2 * r * n,
            *dcosine = dsine + n;
    for (int64_t i = 0; i < n; ++i) du[r * n + i] = cosine[i] * dsine[i] - sine[i] * dcosine[i];
  });
}

LINEA_KERNEL_TABLE(RandomFeatureKernels, .random_logs = random_logs<T>,
                   .random_logs_backward = random_logs_backward<T>, .sine_cosine = sine_cosine<T>,
                   .sine_cosine_backward = sine_cosine_backward<T>)

}  // namespace linea::cpu

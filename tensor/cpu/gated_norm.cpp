// The norm and the gate of attention outputs, and its backward.
#include <cmath>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {
namespace {

// r = 1 / sqrt(mean(y^2) + 1e-6) of a head
template <typename T>
T inverse_rms(const T* y, int64_t D) {
  return T(1) / std::sqrt(dot(y, y, D) / static_cast<T>(D) + static_cast<T>(kGatedNormEpsilon));
}

}  // namespace

// z = n(y) silu(g), n(y) = weight y r of each head, or y without a weight
template <typename T>
void gated_norm(Context& ctx, const T* y, const T* weight, const T* g, T* z, int64_t R, int64_t H,
                int64_t C) {
  const int64_t D = C / H;
  parallel_rows(ctx, R * H, 24 * D, [&](int64_t i) {
    const T *from = y + i * D, *gate = g + i * D;
    const T r = weight == nullptr ? T(1) : inverse_rms(from, D);
    T* to = z + i * D;
#pragma omp simd
    for (int64_t c = 0; c < D; ++c)
      to[c] = from[c] * r * Silu<T>::value_at(gate[c], Sigmoid<T>::value(gate[c]));
    if (weight != nullptr) multiply_rows(weight + i % H * D, to, D);
  });
}

// With u = y r of a head and h = weight silu(g) dz:  dy = r (h - u avg(u h)),
// dg = weight u silu'(g) dz, dweight = sum over rows of u silu(g) dz.
template <typename T>
void gated_norm_backward(Context& ctx, const T* y, const T* weight, const T* g, const T* dz, T* dy,
                         T* dweight, T* dg, int64_t R, int64_t H, int64_t C) {
  const int64_t D = C / H;
  const Workspace<T> total(ctx, C);
  sum_over_rows(ctx, R, C, 32 * C, total.data(), [&](int64_t r, T* sums) {
    for (int64_t first = 0; first < C; first += D) {
      const T *from = y + r * C + first, *gate = g + r * C + first, *dto = dz + r * C + first;
      T *dfrom = dy + r * C + first, *dgate = dg + r * C + first, *sum = sums + first;
      const T scale = weight == nullptr ? T(1) : inverse_rms(from, D);
      T along = 0;
#pragma omp simd reduction(+ : along)
      for (int64_t c = 0; c < D; ++c) {
        const T w = weight == nullptr ? T(1) : weight[first + c];
        const T u = from[c] * scale, s = Sigmoid<T>::value(gate[c]);
        const T passed = Silu<T>::value_at(gate[c], s) * dto[c];
        dgate[c] = w * u * Silu<T>::derivative_at(gate[c], s) * dto[c];
        dfrom[c] = scale * w * passed;
        along += u * w * passed;
        sum[c] += u * passed;
      }
      if (weight == nullptr) continue;
      const T average = along / static_cast<T>(D);
#pragma omp simd
      for (int64_t c = 0; c < D; ++c) dfrom[c] -= scale * scale * from[c] * average;
    }
  });
  if (weight != nullptr) std::copy_n(total.data(), C, dweight);
}

LINEA_KERNEL_TABLE(GatedNormKernels, .gated_norm = gated_norm<T>,
                   .gated_norm_backward = gated_norm_backward<T>)

}  // namespace linea::cpu

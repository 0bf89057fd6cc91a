// Kernels of the optimiser. What changes from step to step is read from StepParams.
#include <cmath>

#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

// Fixed blocks, added in order in double: the same bits at any thread count.
template <typename T>
void sum_squares(Context& ctx, const T* x, double* total, int64_t n) {
  constexpr int64_t kBlock = 4096;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  const Workspace<double> sums(ctx, std::max<int64_t>(blocks, 1));
  parallel_ranges(ctx, blocks, kBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      double sum = 0;
      const int64_t end = std::min(n, (block + 1) * kBlock);
#pragma omp simd reduction(+ : sum)
      for (int64_t i = block * kBlock; i < end; ++i)
        sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      sums.data()[block] = sum;
    }
  });
  for (int64_t block = 0; block < blocks; ++block) *total += sums.data()[block];
}

template void sum_squares(Context&, const float*, double*, int64_t);
template void sum_squares(Context&, const double*, double*, int64_t);

void clip_scale(Context& ctx, const double* total, double clip) {
  const double norm = std::sqrt(*total);
  ctx.step->gradient_norm = norm;
  const double limit = ctx.step->norm_limit;
  const bool usable = std::isfinite(norm) && (limit == 0 || norm <= limit);
  ctx.step->clip_scale = !usable ? std::nan("") : clip > 0 && norm > clip ? clip / norm : 1.0;
}

// Nothing changes where clip_scale is NaN; else
// g' = clip_scale g;  m = b1 m + (1 - b1) g';  s = b2 s + (1 - b2) g'^2
// Adam, AdamW:  p = p - lr (m c1 / (sqrt(s c2) + eps) + decay p)    (Kingma 2015; Loshchilov 2019)
// RAdam:        the first term times r, or m c1 alone while the variance is intractable  (Liu 2020)
template <typename T>
void adam(Context& ctx, const AdamConstants& constants, const T* gradient, T* parameter, T* mean,
          T* square, int64_t n) {
  const StepParams& step = *ctx.step;
  if (std::isnan(step.clip_scale)) return;
  const T rate = static_cast<T>(step.learning_rate), clip = static_cast<T>(step.clip_scale);
  const T c1 = static_cast<T>(step.correction1), c2 = static_cast<T>(step.correction2);
  const T b1 = static_cast<T>(constants.beta1), b2 = static_cast<T>(constants.beta2);
  const T epsilon = static_cast<T>(constants.epsilon);
  const T kept = T(1) - rate * static_cast<T>(constants.weight_decay);
  const bool adaptive = step.rectification >= 0;
  const T rectified = static_cast<T>(adaptive ? step.rectification : 1.0);
  parallel_ranges(ctx, n, 8, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const T g = clip * gradient[i];
      mean[i] = b1 * mean[i] + (T(1) - b1) * g;
      square[i] = b2 * square[i] + (T(1) - b2) * g * g;
      const T scale = adaptive ? std::sqrt(square[i] * c2) + epsilon : T(1);
      parameter[i] = kept * parameter[i] - rate * rectified * (mean[i] * c1) / scale;
    }
  });
}

template void adam(Context&, const AdamConstants&, const float*, float*, float*, float*, int64_t);
template void adam(Context&, const AdamConstants&, const double*, double*, double*, double*,
                   int64_t);

}  // namespace linea::cpu

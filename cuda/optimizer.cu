// Kernels of the optimiser. What changes from step to step is read from StepParams, on the device.
#include "cuda/block.h"
#include "cuda/cuda_kernels.h"
#include "cuda/grid.h"
#include "tensor/workspace.h"

namespace linea::cuda {

// Fixed blocks, added in order in double: the same bits each time.
template <typename T>
void sum_squares(Context& ctx, const T* x, double* total, int64_t n) {
  using A = Accumulator<T>;
  constexpr int64_t kBlock = 4096;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  if (blocks == 0) return;
  const Workspace<double> workspace(ctx, blocks);
  double* const sums = workspace.data();
  for_each_row(ctx, blocks, [=] __device__(int64_t block) {
    double sum = 0;
    const int64_t end = n < (block + 1) * kBlock ? n : (block + 1) * kBlock;
    for (int64_t i = block * kBlock + threadIdx.x; i < end; i += kBlockThreads) {
      const double value = static_cast<double>(A(x[i]));
      sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[block] = sum;
  });
  for_each_row(ctx, 1, [=] __device__(int64_t) {
    double sum = 0;
    for (int64_t block = threadIdx.x; block < blocks; block += kBlockThreads) sum += sums[block];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *total += sum;
  });
}

void clip_scale(Context& ctx, const double* total, double clip) {
  StepParams* const step = ctx.step_on_device;
  for_each(ctx, 1, [=] __device__(int64_t) {
    const double norm = std::sqrt(*total), limit = step->norm_limit;
    const bool usable = norm - norm == 0 && (limit == 0 || norm <= limit);
    step->gradient_norm = norm;
    const double scale = clip > 0 && norm > clip ? clip / norm : 1.0;
    step->clip_scale = usable ? scale : std::numeric_limits<double>::quiet_NaN();
  });
}

// Nothing changes where clip_scale is NaN; else
// g' = clip_scale g;  m = b1 m + (1 - b1) g';  s = b2 s + (1 - b2) g'^2
// Adam, AdamW:  p = p - lr (m c1 / (sqrt(s c2) + eps) + decay p)    (Kingma 2015; Loshchilov 2019)
// RAdam:        the first term times r, or m c1 alone while the variance is intractable  (Liu 2020)
template <typename T>
void adam(Context& ctx, const AdamConstants& constants, const T* gradient, T* parameter, Accumulator<T>* mean,
          Accumulator<T>* square, int64_t n) {
  using A = Accumulator<T>;
  const StepParams* const step = ctx.step_on_device;
  const A b1 = static_cast<A>(constants.beta1), b2 = static_cast<A>(constants.beta2);
  const A epsilon = static_cast<A>(constants.epsilon), decay = static_cast<A>(constants.weight_decay);
  for_each(ctx, n, [=] __device__(int64_t i) {
    const A clip = static_cast<A>(step->clip_scale);
    if (clip != clip) return;
    const A rate = static_cast<A>(step->learning_rate);
    const A c1 = static_cast<A>(step->correction1), c2 = static_cast<A>(step->correction2);
    const A rectification = static_cast<A>(step->rectification);
    const bool adaptive = rectification >= A(0);
    const A rectified = adaptive ? rectification : A(1);
    const A g = clip * A(gradient[i]);
    const A m = b1 * mean[i] + (A(1) - b1) * g;
    const A s = b2 * square[i] + (A(1) - b2) * g * g;
    mean[i] = m;
    square[i] = s;
    const A scale = adaptive ? std::sqrt(s * c2) + epsilon : A(1);
    parameter[i] = T((A(1) - rate * decay) * A(parameter[i]) - rate * rectified * (m * c1) / scale);
  });
}

#define LINEA_INSTANTIATE(T)                                                                                 \
  template void sum_squares(Context&, const T*, double*, int64_t);                                           \
  template void adam(Context&, const AdamConstants&, const T*, T*, Accumulator<T>*, Accumulator<T>*, int64_t);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

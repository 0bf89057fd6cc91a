// Optimizer kernels. Values that change from step to step are in StepParams.
#include <cmath>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

constexpr int64_t kBlock = 4096;

int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

template <typename T>
int64_t blocks_of(const TrainedParameter<T>* parameters, size_t count) {
  int64_t blocks = 0;
  for (size_t p = 0; p < count; ++p) blocks += blocks_of(parameters[p].n);
  return blocks;
}

// body(parameter, first element, end, block) for blocks `first` to `last` of the concatenated
// parameters.
template <typename T, typename Body>
void each_block(const TrainedParameter<T>* parameters, size_t count, int64_t first, int64_t last,
                const Body& body) {
  int64_t before = 0;
  for (size_t p = 0; p < count && before < last; ++p) {
    const int64_t n = parameters[p].n, own = blocks_of(n);
    for (int64_t block = std::max(first, before); block < std::min(last, before + own); ++block)
      body(parameters[p], (block - before) * kBlock, std::min(n, (block - before + 1) * kBlock),
           block);
    before += own;
  }
}

}  // namespace

// Fixed blocks, summed in order in double: the same bits at any number of threads.
template <typename T>
void sum_squares(Context& ctx, const TrainedParameter<T>* parameters, size_t count, double* total) {
  const int64_t blocks = blocks_of(parameters, count);
  const Workspace<double> sums(ctx, std::max<int64_t>(blocks, 1));
  parallel_ranges(ctx, blocks, kBlock, [&](int64_t first_block, int64_t last_block) {
    each_block(parameters, count, first_block, last_block,
               [&](const TrainedParameter<T>& of, int64_t first, int64_t last, int64_t block) {
                 double sum = 0;
#pragma omp simd reduction(+ : sum)
                 for (int64_t i = first; i < last; ++i)
                   sum += static_cast<double>(of.gradient[i]) * static_cast<double>(of.gradient[i]);
                 sums.data()[block] = sum;
               });
  });
  for (int64_t block = 0; block < blocks; ++block) *total += sums.data()[block];
}

template <typename T>
void clip_scale(Context& ctx, const double* total, const Accumulator<T>* loss, double clip) {
  ctx.step->gradient_norm = std::sqrt(*total);
  ctx.step->loss = loss == nullptr ? 0 : static_cast<double>(*loss);
  ctx.step->set_clip_scale(clip);
}

// No update where clip_scale is NaN; else
// g' = clip_scale g;  m = b1 m + (1 - b1) g';  s = b2 s + (1 - b2) g'^2
// Adam, AdamW:  p = p - lr (m c1 / (sqrt(s c2) + eps) + decay p)    (Kingma 2015; Loshchilov 2019)
// RAdam:        the first term times r, or m c1 alone while the variance is intractable  (Liu 2020)
template <typename T>
void adam(Context& ctx, const AdamConstants& constants, const TrainedParameter<T>* parameters,
          size_t count) {
  const StepParams& step = *ctx.step;
  if (std::isnan(step.clip_scale)) return;
  const T rate = static_cast<T>(step.learning_rate), clip = static_cast<T>(step.clip_scale);
  const T c1 = static_cast<T>(step.correction1), c2 = static_cast<T>(step.correction2);
  const T b1 = static_cast<T>(constants.beta1), b2 = static_cast<T>(constants.beta2);
  const T epsilon = static_cast<T>(constants.epsilon);
  const bool adaptive = step.rectification >= 0;
  const T rectified = static_cast<T>(adaptive ? step.rectification : 1.0);
  const auto update = [&](const TrainedParameter<T>& of, int64_t first, int64_t last, int64_t) {
    const T shrink = T(1) - rate * static_cast<T>(of.weight_decay);
    const T* const gradient = of.gradient;
    T *const parameter = of.parameter, *const mean = of.mean, *const square = of.square;
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const T g = clip * gradient[i];
      mean[i] = b1 * mean[i] + (T(1) - b1) * g;
      square[i] = b2 * square[i] + (T(1) - b2) * g * g;
      const T scale = adaptive ? std::sqrt(square[i] * c2) + epsilon : T(1);
      parameter[i] = shrink * parameter[i] - rate * rectified * (mean[i] * c1) / scale;
    }
  };
  parallel_ranges(ctx, blocks_of(parameters, count), 8 * kBlock, [&](int64_t first, int64_t last) {
    each_block(parameters, count, first, last, update);
  });
}

LINEA_KERNEL_TABLE(OptimizerKernels, .sum_squares = sum_squares<T>, .clip_scale = clip_scale<T>,
                   .adam = adam<T>)

}  // namespace linea::cpu

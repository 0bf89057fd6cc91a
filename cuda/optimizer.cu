// Optimizer kernels. Values that change from step to step are read from StepParams on the device.
#include "cuda/kernel_tables.h"
#include "cuda/several.h"
#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {

// Fixed blocks, added in order in double, so that results are reproducible bit by bit.
template <typename T>
void sum_squares(Context& ctx, const TrainedParameter<T>* parameters, size_t count, double* total) {
  int64_t blocks = 0;
  for (size_t p = 0; p < count; ++p) blocks += piece_blocks(parameters[p].n);
  if (blocks == 0) return;
  const Workspace<double> workspace(ctx, blocks);
  double* const sums = workspace.data();
  each_piece(
      ctx, parameters, count,
      [=] __device__(const TrainedParameter<T>& of, int64_t first, int64_t last, int64_t block) {
        const double sum = BlockTeam{}.sum_of(last - first, [&](int64_t i) {
          const double value = static_cast<double>(of.gradient[first + i]);
          return value * value;
        });
        if (threadIdx.x == 0) sums[block] = sum;
      });
  for_each_row(ctx, 1, [=] __device__(int64_t) {
    const double sum = BlockTeam{}.sum_of(blocks, [&](int64_t block) { return sums[block]; });
    if (threadIdx.x == 0) *total += sum;
  });
}

template <typename T>
void clip_scale(Context& ctx, const double* total, const T* loss, double clip) {
  StepParams* const step = ctx.step_on_device;
  for_each(ctx, 1, [=] __device__(int64_t) {
    step->gradient_norm = std::sqrt(*total);
    step->loss = loss == nullptr ? 0 : static_cast<double>(*loss);
    step->set_clip_scale(clip);
  });
}

// Nothing changes if clip_scale is NaN; else
//   g' = clip_scale g;  m = b1 m + (1 - b1) g';  s = b2 s + (1 - b2) g'^2
//   Adam, AdamW:  p = p - lr (m c1 / (sqrt(s c2) + eps) + decay p)   (Kingma 2015; Loshchilov 2019)
//   RAdam:        the first term times r, or m c1 alone while the variance is intractable (Liu
//   2020)
template <typename T>
void adam(Context& ctx, const AdamConstants& constants, const TrainedParameter<T>* parameters,
          size_t count) {
  const StepParams* const step = ctx.step_on_device;
  const T b1 = static_cast<T>(constants.beta1), b2 = static_cast<T>(constants.beta2);
  const T epsilon = static_cast<T>(constants.epsilon);
  each_piece(
      ctx, parameters, count,
      [=] __device__(const TrainedParameter<T>& of, int64_t first, int64_t last, int64_t) {
        const T clip = static_cast<T>(step->clip_scale);
        if (clip != clip) return;
        const T rate = static_cast<T>(step->learning_rate), decay = static_cast<T>(of.weight_decay);
        const T c1 = static_cast<T>(step->correction1), c2 = static_cast<T>(step->correction2);
        const T rectification = static_cast<T>(step->rectification);
        const bool adaptive = rectification >= T(0);
        const T rectified = adaptive ? rectification : T(1);
        for (int64_t i = first + threadIdx.x; i < last; i += kBlockThreads) {
          const T g = clip * of.gradient[i];
          const T m = b1 * of.mean[i] + (T(1) - b1) * g;
          const T s = b2 * of.square[i] + (T(1) - b2) * g * g;
          of.mean[i] = m;
          of.square[i] = s;
          const T scale = adaptive ? std::sqrt(s * c2) + epsilon : T(1);
          of.parameter[i] =
              (T(1) - rate * decay) * of.parameter[i] - rate * rectified * (m * c1) / scale;
        }
      });
}

LINEA_REAL_KERNEL_TABLE(OptimizerKernels, .sum_squares = sum_squares<T>,
                        .clip_scale = clip_scale<T>, .adam = adam<T>)

}  // namespace linea::cuda

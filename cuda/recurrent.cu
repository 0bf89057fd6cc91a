// One position of the sum rule in one launch; each element of the state is read once and written
// once, in place.
#include "cuda/recurrent.h"

#include "cuda/fused_norm_step.h"
#include "cuda/kernel_tables.h"
#include "tensor/norm_qkv_step.h"

namespace linea::cuda {

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const RecurrentView<T>& state, T* y) {
  const auto& [states, pending] = state;
  constexpr int kWide = 16 / sizeof(Accumulator<T>);
  const auto start = [&](const auto& step) {
    for_each_team(ctx, shape.batch_heads, shape.features * shape.values, step);
  };
  if constexpr (std::is_same_v<T, BFloat16>)
    if (pending.high != nullptr)
      return start(RecurrentStep<T, kWideRows, true>{shape, in, states, pending, y});
  if (shape.values % kWide == 0)
    start(RecurrentStep<T, kWide, false>{shape, in, states, pending, y});
  else
    start(RecurrentStep<T, 1, false>{shape, in, states, pending, y});
}

template <typename T>
void norm_qkv_step(Context& ctx, const LinearShape& linear, const T* x, const NormWeights<T>& norm,
                   const T* w, const T* bias, const ChunkShape& shape,
                   const RecurrentView<T>& state, T* y) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (fused_norm_step(ctx, linear, x, norm, w, bias, shape, state, y)) return;
  norm_qkv_step_by_parts(ctx, kernels_of<LinearKernels<T>>().linear, recurrent_step<T>, linear, x,
                         norm, w, bias, shape, state, y);
}

LINEA_KERNEL_TABLE(RecurrentKernels, .recurrent_step = recurrent_step<T>,
                   .norm_qkv_step = norm_qkv_step<T>)

}  // namespace linea::cuda

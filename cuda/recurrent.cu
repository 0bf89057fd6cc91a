// One position of the sum rule in one launch; each element of the state is read once and written
// once, in place.
#include "cuda/recurrent.h"

#include "cuda/fused_norm_step.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const ChunkState<Accumulator<T>>& states, const PendingUpdates<T>& pending,
                    T* y) {
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
constexpr decltype(RecurrentKernels<T>::fused_norm_step) fused_norm_step_or_null() {
  if constexpr (std::is_same_v<T, BFloat16>) return fused_norm_step;
  return nullptr;
}

template <typename T>
RecurrentKernels<T> recurrent_kernels() {
  return {.recurrent_step = recurrent_step<T>, .fused_norm_step = fused_norm_step_or_null<T>()};
}
LINEA_INSTANTIATE(RecurrentKernels, recurrent_kernels)

}  // namespace linea::cuda

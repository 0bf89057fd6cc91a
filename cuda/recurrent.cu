// One position of the sum rule in one launch; each element of the state is read once and written
// once, in place.
#include "cuda/recurrent.h"

#include "cuda/kernel_tables.h"

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

LINEA_KERNEL_TABLE(RecurrentKernels, .recurrent_step = recurrent_step<T>)

}  // namespace linea::cuda

// One position of the sum rule in one launch, each element of the state read once, and written once
// where it is.
#include "cuda/recurrent.h"

#include "cuda/cuda_kernels.h"

namespace linea::cuda {

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const ChunkState<Accumulator<T>>& states, const PendingUpdates<T>& pending,
                    T* y) {
  constexpr int kWide = 16 / sizeof(Accumulator<T>);
  const auto start = [&](const auto& step) {
    for_each_team(ctx, shape.pairs, shape.features * shape.values, step);
  };
  if constexpr (std::is_same_v<T, BFloat16>)
    if (pending.high != nullptr)
      return start(RecurrentStep<T, kWideRows, true>{shape, in, states, pending, y});
  if (shape.values % kWide == 0)
    start(RecurrentStep<T, kWide, false>{shape, in, states, pending, y});
  else
    start(RecurrentStep<T, 1, false>{shape, in, states, pending, y});
}

#define LINEA_INSTANTIATE(T)                                                      \
  template void recurrent_step(Context&, const ChunkShape&, const ChunkInput<T>&, \
                               const ChunkState<Accumulator<T>>&, const PendingUpdates<T>&, T*);
LINEA_INSTANTIATE(float)
LINEA_FOR_DOUBLE(LINEA_INSTANTIATE)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

// The forward sweep of the backward pass: dq, and e for the backward sweep. Formulas:
// tensor/cpu/chunk_backward.h.
#include "cuda/chunk_backward.h"
#include "cuda/team.h"
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

// dq of a chunk for a tile of features; and e_i = -(dy_i . y_i) / d_i.
template <NumericMode kMode, typename T>
__global__ void __launch_bounds__(kBlockThreads, 2)
    query_gradient(ChunkShape shape, Group group, ChunkInput<T> in, HeadRows<const T> dy,
                   KeyTable<Accumulator<T>> keys, QueryTable<Accumulator<T>> queries,
                   States<Accumulator<T>> states, HeadRows<const T> y, HeadRows<T> dq,
                   Strided<Accumulator<T>> ddenominator) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> grads;
  __shared__ A grad_d[kTile];  // e
  multiply_as(shape.products, panels);
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  if (chunk.rows == 0) return;
  Pieces<kMode, T> of = pieces_of<kMode>(shape, chunk, in, dy, keys, queries);
  of.grad = grad_d;
  const TileRows<T> rows_y = tile_rows(y, chunk.bh, chunk.first, chunk.rows, shape.values);
  for (int i = own_warp(); i < chunk.rows; i += kBlockWarps) {
    const A along = WarpTeam{}.sum_of(
        shape.values, [&](int64_t m) { return of.dy.or_zero(i, m) * rows_y.or_zero(i, m); });
    if (own_lane() > 0) continue;
    const A grad = grad_d[i] = -along * of.inverse[i];
    if (blockIdx.y == 0) ddenominator.at(chunk.bh)[chunk.first + i] = grad;
  }
  __syncthreads();
  A whole[2] = {};
  feature_gradients<kMode, false>(shape, chunk, of, state_at(states, shape, group, chunk), grads,
                                  panels, dq, whole);
}

}  // namespace

template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                          HeadRows<const T> y, HeadRows<const T> dy,
                          const ChunkRows<Accumulator<T>>& saved,
                          const ChunkState<Accumulator<T>>& running, HeadRows<T> dq,
                          Strided<Accumulator<T>> ddenominator) {
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (walk_query(ctx, shape, in, y, dy, saved, running, dq, ddenominator)) return;
  with_mode<T>(shape, running.scale, [&](auto mode) {
    constexpr NumericMode kMode = mode;
    Sweep<T> sweep(ctx, shape, kMode != NumericMode::plain, false);
    sweep_keys<kMode>(ctx, shape, in, running, sweep, [&](const Group& group, const auto& states) {
      const int64_t slots = shape.batch_heads * group.chunks;
      for_each_row(ctx, slots,
                   MakeQueries<kMode, T>{
                       shape, group, in.q, saved.denominator, saved.scale, {}, sweep.queries});
      launch_blocks(ctx, grid_of(slots, tiles_of(shape.features)), query_gradient<kMode, T>, shape,
                    group, in, dy, in.k.data != nullptr ? sweep.keys : KeyTable<Accumulator<T>>{},
                    sweep.queries, states, y, dq, ddenominator);
    });
  });
}

LINEA_KERNEL_TABLE(ChunkBackwardQueryKernels, .chunk_backward_query = chunk_backward_query<T>)

}  // namespace linea::cuda

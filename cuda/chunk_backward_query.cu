// The forward sweep of the backward pass: dq, and e for the backward sweep. Formulas:
// tensor/cpu/chunk_backward.h.
#include "cuda/chunk_backward.h"
#include "cuda/team.h"
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

// e_i = -(dy_i . y_i) / d_i for a chunk's queries, readable on return.
template <NumericMode kMode, typename T, typename A>
__device__ void denominator_gradients(const Pieces<kMode, T>& of, const TileRows<T>& y, A* to) {
  for (int i = own_warp(); i < of.q.count; i += kBlockWarps) {
    const A along = WarpTeam{}.sum_of(
        y.width, [&](int64_t m) { return of.dy.or_zero(i, m) * y.or_zero(i, m); });
    if (own_lane() == 0) to[i] = -along * of.inverse[i];
  }
  __syncthreads();
}

// dq of a chunk for a tile of features; and e.
template <NumericMode kMode, typename T>
__global__ void __launch_bounds__(kBlockThreads, 2)
    query_gradient(ChunkShape shape, Group group, ChunkInput<T> in, HeadRows<const T> dy,
                   KeyTable<Accumulator<T>> keys, QueryTable<Accumulator<T>> queries,
                   States<Accumulator<T>> states, HeadRows<const T> y, HeadRows<T> dq,
                   Strided<Accumulator<T>> ddenominator) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> grads;
  __shared__ RowsByLogs by_logs;
  __shared__ A grad_d[kTile];  // e
  multiply_as(shape.products, panels);
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  if (chunk.rows == 0) return;
  const StateAt<A> past = state_at(states, shape, group, chunk);
  using Tile = Sums<A>;
  const int64_t F = shape.features, M = shape.values;
  const int64_t first_f = static_cast<int64_t>(blockIdx.y) * kTile;

  Pieces<kMode, T> of = pieces_of<kMode>(shape, chunk, in, dy, keys, queries);
  of.grad = grad_d;
  denominator_gradients(of, tile_rows(y, chunk.bh, chunk.first, chunk.rows, M), grad_d);
  if (blockIdx.y == 0 && static_cast<int>(threadIdx.x) < chunk.rows)
    ddenominator.at(chunk.bh)[chunk.first + threadIdx.x] = grad_d[threadIdx.x];
  find_by_logs(of, by_logs);
  Tile inside;
  if (of.k.count > 0) {
    make_gradients(of, by_logs, grads, panels);
    add_product<Along::terms, Along::tile>(
        inside, of.k.count,
        [&](int i, int64_t j) {
          return kMode == NumericMode::logs && by_logs.row[i] ? A(0) : grads[i][j];
        },
        by_columns(of.k, first_f), panels);
  }
  // For plain values the state's contribution needs no factor, and is added to that of the keys.
  Tile apart;
  Tile& before = kMode == NumericMode::plain ? inside : apart;
  if (!past.empty)
    add_product<Along::terms, Along::terms>(
        before, M, [&](int i, int64_t m) { return of.numerator(i, m); },
        by_rows(past.state.from(first_f)), panels);

  T* to = dq.at(chunk.bh, chunk.first);
  Tile::each([&](int e, int i, int col) {
    const int64_t f = first_f + col;
    if (i >= of.q.count || f >= F) return;
    const A given = of.q.given(i, f), feature = of.q.at(i, f);
    A grad = inside[e];
    if (kMode == NumericMode::logs) grad *= feature;
    if (!past.empty) {
      const A of_state = apart[e] + of.grad[i] * past.key_sum[f];
      if (kMode == NumericMode::plain) grad += of_state;
      if (kMode == NumericMode::scaled)
        grad += of_state * factor(past.scale[f], -of.query_offset[i]);
      if (kMode == NumericMode::logs)
        grad += of_state * read_by_logs(given, past.scale[f], of.query_offset[i] - of.q.top[i]);
    }
    if (kMode == NumericMode::logs && of.k.count > 0 && by_logs.row[i])
      for (int j = 0; j <= i && j < of.k.count; ++j)
        grad += grads[i][j] * exp_of(given + of.k.given(j, f) + of.rest(i, j));
    if (kMode != NumericMode::logs) grad *= feature_derivative(shape.feature, feature);
    to[i * dq.row + f] = T(grad);
  });
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

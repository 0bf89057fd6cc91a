// The backward sweep of the backward pass: dk and dv from the gradients of the states. Formulas:
// tensor/cpu/chunk_backward.h.
#include "cuda/chunk_backward.h"
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

// dk of a chunk for a tile of features; and, if `weight_part` [blocks of features,
// entries] is not null, its part of the gradients of the keys' weights.
template <NumericMode kMode, typename T>
__global__ void __launch_bounds__(kBlockThreads, 2)
    key_gradient(ChunkShape shape, Group group, ChunkInput<T> in, HeadRows<const T> dy,
                 KeyTable<Accumulator<T>> keys, QueryTable<Accumulator<T>> queries,
                 States<Accumulator<T>> states, HeadRows<T> dk, Accumulator<T>* weight_part) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> grads;
  multiply_as(shape.products, panels);
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  if (chunk.rows == 0) return;
  const Pieces<kMode, T> of = pieces_of<kMode>(shape, chunk, in, dy, keys, queries);
  A whole[2] = {};
  feature_gradients<kMode, true>(shape, chunk, of, state_at(states, shape, group, chunk), grads,
                                 panels, dk, whole);
  if (weight_part == nullptr) return;
  sum_rows(whole, [&](int j, A total) {
    weight_part[static_cast<int64_t>(blockIdx.y) * gridDim.x * kTile + chunk.entry + j] = total;
  });
}

template <typename T>
struct SumWeights {
  using A = Accumulator<T>;
  ChunkShape shape;
  Group group;
  int64_t columns;
  const A* part;
  Strided<T> dweight;
  __device__ void operator()(int64_t entry) const {
    const int64_t all = shape.batch_heads * group.chunks * kTile;
    const Chunk chunk = chunk_at(shape, group, entry / kTile);
    if (entry % kTile >= chunk.rows) return;
    A total = 0;
    for (int64_t tile = 0; tile < columns; ++tile) total += part[tile * all + entry];
    dweight.at(chunk.bh)[chunk.first + entry % kTile] = T(total);
  }
};

// dv of a chunk for a tile of values.
template <NumericMode kMode, typename T>
__global__ void __launch_bounds__(kBlockThreads, 2)
    value_gradient(ChunkShape shape, Group group, ChunkInput<T> in, HeadRows<const T> dy,
                   KeyTable<Accumulator<T>> keys, QueryTable<Accumulator<T>> queries,
                   States<Accumulator<T>> states, HeadRows<T> dv) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> weights;
  __shared__ RowsByLogs by_logs;
  multiply_as(shape.products, panels);
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  if (chunk.rows == 0) return;
  const StateAt<A> later = state_at(states, shape, group, chunk);
  const int64_t F = shape.features, M = shape.values;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile;

  const Pieces<kMode, T> of = pieces_of<kMode>(shape, chunk, in, dy, keys, queries);
  find_by_logs(of, by_logs);
  Sums<A> sums;
  if (!later.empty && of.k.count > 0) {
    add_product<Along::terms, Along::tile>(
        sums, F,
        [&](int j, int64_t f) {
          if (j >= of.k.count) return A(0);
          if (kMode != NumericMode::logs) return of.k.at(j, f);
          return read_by_logs(of.k.given(j, f), later.scale[f], of.key_offset[j] - of.k.top[j]);
        },
        by_columns(later.state, first_m), panels);
    if (kMode == NumericMode::scaled)
      Sums<A>::each([&](int e, int j, int) {
        if (j < of.k.count) sums[e] *= factor(later.scale[0], -of.key_offset[j]);
      });
  }
  if (of.q.count > 0 && of.k.count > 0) {
    Sums<A> scores;
    add_product<Along::terms, Along::terms>(scores, F, by_rows(of.q), by_rows(of.k), panels);
    Sums<A>::each([&](int e, int i, int j) {
      A weight = 0;
      if (of.sees(i, j) && !(kMode == NumericMode::logs && by_logs.row[i])) {
        const A visible = of.visible(i, j);
        weight = visible == A(0) ? A(0) : scores[e] * visible;
      }
      weights[i][j] = weight;
    });
    __syncthreads();
    if (kMode == NumericMode::logs && by_logs.any) {
      for (int i = own_warp(); i < of.q.count; i += kBlockWarps)
        for (int j = own_lane(); by_logs.row[i] && j <= i && j < of.k.count; j += kWarp) {
          A whole = 0;
          for (int64_t f = 0; f < F; ++f)
            whole += exp_of(of.q.given(i, f) + of.k.given(j, f) + of.rest(i, j));
          weights[i][j] = whole;
        }
    }
    add_product<Along::tile, Along::tile>(
        sums, of.q.count, by_columns(weights),
        [&](int m, int64_t i) { return of.numerator(static_cast<int>(i), first_m + m); }, panels);
  }
  T* to = dv.at(chunk.bh, chunk.first);
  Sums<A>::each([&](int e, int j, int col) {
    const int64_t m = first_m + col;
    if (j < chunk.rows && m < M) to[j * dv.row + m] = T(j < of.k.count ? sums[e] : A(0));
  });
}

}  // namespace

template <typename T>
void chunk_backward_key(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                        HeadRows<const T> dy, const ChunkRows<Accumulator<T>>& saved,
                        Strided<const Accumulator<T>> ddenominator,
                        const ChunkState<Accumulator<T>>& running, HeadRows<T> dk,
                        Strided<T> dweight, HeadRows<T> dv) {
  using A = Accumulator<T>;
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (walk_key(ctx, shape, in, dy, saved, ddenominator, running, dk, dv)) return;
  const bool reads = in.k.data != nullptr, updates = in.q.data != nullptr,
             decays = in.decay.data != nullptr,  // also where queries alone are summed
      weights = reads && dweight.data != nullptr;
  const int64_t columns = tiles_of(shape.features);
  with_mode<T>(shape, running.scale, [&](auto mode) {
    constexpr NumericMode kMode = mode;
    Sweep<T> sweep(ctx, shape, kMode != NumericMode::plain, true);
    const Workspace<A> parts(ctx, weights ? columns * sweep.entries() : 0);
    sweep.each_group([&](const Group& group) {
      const int64_t slots = shape.batch_heads * group.chunks;
      QueryTable<A> queries;
      if (reads || decays) make_keys<kMode>(ctx, shape, group, in, sweep);
      if (updates) {
        queries = sweep.queries;
        for_each_row(ctx, slots,
                     MakeQueries<kMode, T>{shape, group, in.q, saved.denominator, saved.scale,
                                           ddenominator, queries});
        sweep.template carry<kMode>(
            ctx, shape, group,
            Update<T>{
                in.q, {dy, queries.inverse}, queries.top, queries.offset, queries.grad, false},
            running, reads || decays);
      }
      if (!reads) return;
      const States<A> states = sweep.states(updates, running);
      launch_blocks(ctx, grid_of(slots, columns), key_gradient<kMode, T>, shape, group, in, dy,
                    sweep.keys, queries, states, dk, weights ? parts.data() : nullptr);
      if (weights)
        for_each(ctx, slots * kTile, SumWeights<T>{shape, group, columns, parts.data(), dweight});
      launch_blocks(ctx, grid_of(slots, tiles_of(shape.values)), value_gradient<kMode, T>, shape,
                    group, in, dy, sweep.keys, queries, states, dv);
    });
  });
}

LINEA_KERNEL_TABLE(ChunkBackwardKeyKernels, .chunk_backward_key = chunk_backward_key<T>)

}  // namespace linea::cuda

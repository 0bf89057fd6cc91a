// The forward sweep of the backward pass: dq, and e for the backward sweep. Formulas:
// tensor/cpu/chunk_backward.h.
#include "cuda/chunk_backward.h"
#include "cuda/kernel_tables.h"
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

// e_i = -(dy_i . y_i) / d_i for a chunk's queries, readable on return.
template <NumericMode kMode, typename T, typename A>
__device__ void denominator_gradients(const Pieces<kMode, T>& of, const ValueRows<T>& y, A* to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < of.q.count; i += kBlockThreads / kWarp) {
    A along = 0;
    for (int64_t m = lane; m < y.M; m += kWarp) along += of.dy.or_zero(i, m) * y.or_zero(i, m);
    along = warp_sum(along);
    if (lane == 0) to[i] = -along * of.inverse[i];
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
  denominator_gradients(of, value_rows(shape, y, chunk, chunk.rows), grad_d);
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
        [&](int f, int64_t j) {
          return first_f + f < F ? of.k.at(static_cast<int>(j), first_f + f) : A(0);
        },
        panels);
  }
  // For plain values the state's contribution needs no factor, and is added to that of the keys.
  Tile apart;
  Tile& before = kMode == NumericMode::plain ? inside : apart;
  if (!past.empty)
    add_product<Along::terms, Along::terms>(
        before, M, [&](int i, int64_t m) { return of.numerator(i, m); },
        [&](int f, int64_t m) {
          return first_f + f < F ? past.state[(first_f + f) * M + m] : A(0);
        },
        panels);

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

template <NumericMode kMode, typename T>
void backward_query(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    HeadRows<const T> y, HeadRows<const T> dy,
                    const ChunkRows<Accumulator<T>>& saved,
                    const ChunkState<Accumulator<T>>& running, HeadRows<T> dq,
                    Strided<Accumulator<T>> ddenominator) {
  using A = Accumulator<T>;
  const bool reads = in.q.data != nullptr, updates = in.k.data != nullptr;
  Sweep<T> sweep(ctx, shape, kMode != NumericMode::plain);
  for (int64_t first = 0; first < sweep.count();) {
    const Group group = sweep.from(first);
    first += group.chunks;
    const int64_t slots = shape.batch_heads * group.chunks;
    if (updates) {
      make_keys<kMode>(ctx, shape, group, in, sweep);
      sweep.template carry<kMode>(ctx, shape, group, key_update(in, sweep),
                                  sweep.direction(shape, false), running);
    }
    if (!reads) continue;
    for_each_row(ctx, slots,
                 MakeQueries<kMode, T>{
                     shape, group, in.q, saved.denominator, saved.scale, {}, sweep.queries});
    const States<A> states = sweep.states(updates, running, shape.starts ? 0 : -1);
    launch(query_gradient<kMode, T>,
           dim3(static_cast<unsigned>(slots), static_cast<unsigned>(tiles_of(shape.features))),
           dim3(kBlockThreads), 0, stream(ctx), shape, group, in, dy,
           updates ? sweep.keys : KeyTable<A>{}, sweep.queries, states, y, dq, ddenominator);
  }
}

}  // namespace

template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                          HeadRows<const T> y, HeadRows<const T> dy,
                          const ChunkRows<Accumulator<T>>& saved,
                          const ChunkState<Accumulator<T>>& states, HeadRows<T> dq,
                          Strided<Accumulator<T>> ddenominator) {
  const ChunkShape shape = as_multiplied<T>(ctx, given, is_plain(given, states.scale));
  if (shape.batch_heads == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (walk_query(ctx, shape, in, y, dy, saved, states, dq, ddenominator)) return;
  with_rule(shape, states.scale != nullptr, [&](auto rule) {
    backward_query<rule.value>(ctx, shape, in, y, dy, saved, states, dq, ddenominator);
  });
}

LINEA_KERNEL_TABLE(ChunkBackwardQueryKernels, .chunk_backward_query = chunk_backward_query<T>)

}  // namespace linea::cuda

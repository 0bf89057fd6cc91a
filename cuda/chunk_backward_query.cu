// The sweep forward of the backward pass: dq, and e for the sweep backward. e_i = -(dy_i . y_i) / d_i needs y, which
// the chunk makes again. Formulas in tensor/cpu/chunk_backward.h.
#include "cuda/chunk_backward.h"
#include "cuda/chunk_read.h"
#include "cuda/cuda_kernels.h"

namespace linea::cuda {
namespace {

// e of each row, from what the tiles of values gave.
template <typename A>
struct SumAlong {
  ChunkShape shape;
  Group group;
  int64_t tiles;
  const A* along;
  A* slope;
  Strided<A> ddenominator;
  __device__ void operator()(int64_t place) const {
    const int64_t all = shape.pairs * group.chunks * kTile;
    const Chunk chunk = chunk_at(shape, group, place / kTile);
    if (place % kTile >= chunk.rows) return;
    A total = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) total += along[tile * all + place];
    slope[place] = -total;
    ddenominator.pair(chunk.pair)[chunk.first + place % kTile] = -total;
  }
};

// dq of a chunk, a tile of features.
template <Rule kRule, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    query_gradient(ChunkShape shape, Group group, ChunkInput<T> in, HeadRows<const T> dy,
                   KeyTable<Accumulator<T>> keys, QueryTable<Accumulator<T>> queries, States<Accumulator<T>> states,
                   HeadRows<T> dq) {
  using A = Accumulator<T>;
  using P = Factor<kRule, T>;
  __shared__ Panels<P> panels;
  __shared__ Square<A> slopes;
  __shared__ RowsByLogs by_logs;
  const Pieces<kRule, T> of = pieces_of<kRule>(shape, group, in, dy, keys, queries);
  const StateAt<A> past = state_at(states, shape, group, of.chunk);
  const int64_t F = shape.features, M = shape.values, first_f = static_cast<int64_t>(blockIdx.y) * kTile;

  Sums<P> inside;
  if (of.k.count > 0) {
    find_by_logs(of, by_logs);
    make_slopes(of, by_logs, slopes, panels);
    add_product<Along::terms, Along::tile>(
        inside, of.k.count, [&](int i, int64_t j) { return by_logs.row[i] ? A(0) : slopes[i][j]; },
        [&](int f, int64_t j) { return first_f + f < F ? of.k.at(static_cast<int>(j), first_f + f) : A(0); }, panels);
  }
  Sums<P> before;
  if (!past.empty)
    add_product<Along::terms, Along::terms>(
        before, M, [&](int i, int64_t m) { return of.numerator(i, m); },
        [&](int f, int64_t m) { return first_f + f < F ? past.state[(first_f + f) * M + m] : A(0); }, panels);

  T* to = dq.at(of.chunk.pair, of.chunk.first);
  Sums<P>::each([&](int e, int i, int col) {
    const int64_t f = first_f + col;
    if (i >= of.q.count || f >= F) return;
    const A given = of.q.given(i, f), feature = of.q.at(i, f);
    A slope = inside[e];
    if (kRule == Rule::logs) slope *= feature;
    if (!past.empty) {
      const A of_state = before[e] + of.slope[i] * past.key_sum[f];
      if (kRule == Rule::plain) slope += of_state;
      if (kRule == Rule::scaled) slope += of_state * factor(past.scale[f], -of.query_offset[i]);
      if (kRule == Rule::logs)
        slope += of_state * read_by_logs(given, past.scale[f], of.query_offset[i] - of.q.top[i]);
    }
    if (kRule == Rule::logs && of.k.count > 0 && by_logs.row[i])
      for (int j = 0; j <= i && j < of.k.count; ++j)
        slope += slopes[i][j] * exp_of(given + of.k.given(j, f) + of.rest(i, j));
    if (kRule != Rule::logs) slope *= feature_slope(shape.feature, feature);
    to[i * dq.row + f] = T(slope);
  });
}

template <Rule kRule, typename T>
void backward_query(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, HeadRows<const T> dy,
                    const ChunkRows<Accumulator<T>>& kept, const ChunkState<Accumulator<T>>& carried, HeadRows<T> dq,
                    Strided<Accumulator<T>> ddenominator) {
  using A = Accumulator<T>;
  const bool reads = in.q.data != nullptr, joins = in.k.data != nullptr;
  const int64_t chunks = chunk_count(shape), tiles = tiles_of(shape.values);
  Sweep<T> sweep(ctx, shape, kRule != Rule::plain);
  const Workspace<A> along(ctx, reads ? tiles * shape.pairs * sweep.chunks() * kTile : 0);
  Results<T> results;
  results.dy = dy;
  results.along = along.data();
  for (Group group{0, 0}; group.first < chunks; group.first += group.chunks) {
    group.chunks = std::min(sweep.chunks(), chunks - group.first);
    const int64_t slots = shape.pairs * group.chunks;
    if (joins) {
      make_keys<kRule>(ctx, shape, group, in, sweep);
      sweep.template carry<kRule>(ctx, shape, group, keys_join(in, sweep), direction_of(shape, false), carried);
    }
    if (!reads) continue;
    for_each_row(ctx, slots,
                 MakeQueries<kRule, T>{shape, group, in.q, kept.denominator, kept.scale, {}, sweep.queries});
    const States<A> states = sweep.states(joins, carried, shape.starts ? 0 : -1);
    read_chunks<kRule>(ctx, shape, group, in, sweep, states, results);
    for_each(ctx, slots * kTile,
             SumAlong<A>{shape, group, tiles, along.data(), sweep.queries.slope, ddenominator});
    launch(query_gradient<kRule, T>,
           dim3(static_cast<unsigned>(slots), static_cast<unsigned>(tiles_of(shape.features))), dim3(kBlockThreads),
           0, stream(ctx), shape, group, in, dy, joins ? sweep.keys : KeyTable<A>{}, sweep.queries, states, dq);
  }
}

}  // namespace

template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, HeadRows<const T> dy,
                          const ChunkRows<Accumulator<T>>& kept, const ChunkState<Accumulator<T>>& states,
                          HeadRows<T> dq, Strided<Accumulator<T>> ddenominator) {
  if (shape.pairs == 0) return;
  with_rule(shape, states.scale != nullptr, [&](auto rule) {
    backward_query<rule.value>(ctx, shape, in, dy, kept, states, dq, ddenominator);
  });
}

#define LINEA_INSTANTIATE(T)                                                                                    \
  template void chunk_backward_query(Context&, const ChunkShape&, const ChunkInput<T>&, HeadRows<const T>,      \
                                     const ChunkRows<Accumulator<T>>&, const ChunkState<Accumulator<T>>&,       \
                                     HeadRows<T>, Strided<Accumulator<T>>);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

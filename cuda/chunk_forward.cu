// The forward pass of the sum rule over a segment. How it is cut: cuda/chunk.h; formulas: tensor/cpu/chunk.h.
#include "cuda/chunk_read.h"
#include "cuda/cuda_kernels.h"

namespace linea::cuda {
namespace {

template <Rule kRule, typename T>
void forward(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
             const ChunkState<Accumulator<T>>& carried, const Results<T>& results) {
  const bool reads = in.q.data != nullptr, joins = in.k.data != nullptr;
  Sweep<T> sweep(ctx, shape, kRule != Rule::plain);
  for (int64_t first = 0; first < sweep.count();) {
    const Group group = sweep.from(first);
    first += group.chunks;
    if (joins) {
      make_keys<kRule>(ctx, shape, group, in, sweep);
      sweep.template carry<kRule>(ctx, shape, group, keys_join(in, sweep), sweep.direction(shape, false), carried);
    }
    if (!reads) continue;
    if (kRule == Rule::logs)
      for_each_row(ctx, shape.pairs * group.chunks,
                   MakeQueries<kRule, T>{shape, group, in.q, {}, {}, {}, sweep.queries});
    read_chunks<kRule>(ctx, shape, group, in, sweep, sweep.states(joins, carried, shape.starts ? 0 : -1), results);
  }
}

}  // namespace

template <typename T>
void chunk_forward(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                   const ChunkState<Accumulator<T>>& states, HeadRows<T> y, const ChunkRows<Accumulator<T>>& kept) {
  if (shape.pairs == 0) return;
  Results<T> results;
  results.y = y;
  results.kept = kept;
  with_rule(shape, states.scale != nullptr, [&](auto rule) { forward<rule.value>(ctx, shape, in, states, results); });
}

#define LINEA_INSTANTIATE(T)                                                                       \
  template void chunk_forward(Context&, const ChunkShape&, const ChunkInput<T>&,                   \
                              const ChunkState<Accumulator<T>>&, HeadRows<T>, const ChunkRows<Accumulator<T>>&);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

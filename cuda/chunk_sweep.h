// Propagates a state over the chunks of a group, in either direction (cuda/chunk.h): the sums of
// each chunk, and the scan that accumulates them.
#pragma once

#include <algorithm>
#include <utility>

#include "cuda/chunk_tables.h"

namespace linea::cuda {

// Rows x, or x / d if inverse is not null.
template <typename T>
struct GivenValues {
  using A = Accumulator<T>;
  HeadRows<const T> x;
  const A* inverse;
  struct Of {
    ValueRows<T> rows;
    const A* inverse;
    __device__ A or_zero(int i, int64_t m) const {
      const A value = rows.or_zero(i, m);
      return inverse == nullptr ? value : value * inverse[i];
    }
  };
  __device__ Of of(const ChunkShape& shape, const Chunk& chunk, int count) const {
    return {value_rows(shape, x, chunk, count),
            inverse == nullptr ? nullptr : inverse + chunk.entry};
  }
};

// The terms added to a state: rows of keys with values, or of queries with n = dy / d and e. Null:
// offset 0, weight 1.
template <typename T, typename Values = GivenValues<T>>
struct Update {
  using A = Accumulator<T>;
  HeadRows<const T> rows;
  Values x;
  const A *top, *offset, *weight;
  bool keys;  // rows are keys, of which only existing ones count
};

// The sums of each slot: state [F,M], key_sum [F]; feature f is to be multiplied by exp(scale[F]).
template <typename A>
struct Parts {
  A *state, *key_sum, *scale;
};

// The order of the chunks, and the chunk whose sums are never read.
struct Direction {
  bool backward;
  int64_t unneeded;
};

// The sums of one chunk, a tile of features by one of values a block.
template <NumericMode kMode, typename T, typename Values>
__global__ void __launch_bounds__(kBlockThreads)
    sum_chunk(ChunkShape shape, Group group, Update<T, Values> in, Direction direction,
              Parts<Accumulator<T>> parts) {
  using A = Accumulator<T>;
  constexpr int kShares = kBlockThreads / kTile;  // threads of one feature
  __shared__ Panels<A> panels;
  __shared__ A column[kTile], share[kShares][kTile];
  multiply_as(shape.products, panels);
  const int64_t F = shape.features, M = shape.values;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile,
                first_f = static_cast<int64_t>(blockIdx.z) * kTile;
  const int own = static_cast<int>(threadIdx.x) % kTile,
            part = static_cast<int>(threadIdx.x) / kTile;
  const bool sums_keys = blockIdx.y == 0 && part == 0 && first_f + own < F;
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  if (group.first + chunk.slot % group.chunks == direction.unneeded) return;
  const int count = in.keys ? chunk.keys : chunk.rows;
  const Rows<kMode, T> rows = chunk_rows<kMode>(shape, in.rows, chunk, count, in.top);
  const auto x = in.x.of(shape, chunk, count);

  // log of feature f of row i; then the feature, relative to the largest in the chunk
  const auto log_of = [&](int i, int64_t f) {
    return rows.given(i, f) + (in.offset[chunk.entry + i] - rows.top[i]);
  };
  const auto feature = [&](int i, int f) {
    if (kMode == NumericMode::logs) return factor(log_of(i, first_f + f), column[f]);
    const A value = rows.at(i, first_f + f);
    return kMode == NumericMode::scaled ? value * factor(in.offset[chunk.entry + i], column[f])
                                        : value;
  };
  if (kMode != NumericMode::plain) {
    A max = kNothing<A>;
    for (int i = part; i < count && first_f + own < F; i += kShares)
      max = larger(
          max, kMode == NumericMode::logs ? log_of(i, first_f + own) : in.offset[chunk.entry + i]);
    share[part][own] = max;
    __syncthreads();
    for (int other = 0; other < kShares; ++other) max = larger(max, share[other][own]);
    if (part == 0) column[own] = max;
    if (sums_keys) parts.scale[chunk.slot * F + first_f + own] = max;
    __syncthreads();
  }

  Sums<A> sums;
  add_product<Along::tile, Along::tile>(
      sums, count,
      [&](int f, int64_t i) { return first_f + f < F ? feature(static_cast<int>(i), f) : A(0); },
      [&](int m, int64_t i) { return x.or_zero(static_cast<int>(i), first_m + m); }, panels);
  Sums<A>::each([&](int e, int row, int col) {
    const int64_t f = first_f + row, m = first_m + col;
    if (f < F && m < M) parts.state[(chunk.slot * F + f) * M + m] = sums[e];
  });
  if (blockIdx.y > 0) return;
  A total = 0;
#pragma unroll 1
  for (int i = part; i < count && first_f + own < F; i += kShares)
    total += in.weight == nullptr ? feature(i, own) : feature(i, own) * in.weight[chunk.entry + i];
  share[part][own] = total;
  __syncthreads();
  if (!sums_keys) return;
  for (int other = 1; other < kShares; ++other) total += share[other][own];
  parts.key_sum[chunk.slot * F + first_f + own] = total;
}

// Replaces the scales of the chunks' sums by those of the states that they read. keep, take: the
// factors of the running sums and of the chunk's sums when they are added. One feature of one
// (batch, head).
template <typename A>
struct ScanScales {
  int64_t F;
  Group group;
  Direction direction;
  const A* decay;
  A *running, *parts, *keep, *take;
  __device__ void operator()(int64_t index) const {
    const int64_t bh = index / F, f = index % F;
    A scale = running[index];
    for (int64_t n = 0; n < group.chunks; ++n) {
      const int64_t c = direction.backward ? group.chunks - 1 - n : n, slot = bh * group.chunks + c;
      const int64_t at = slot * F + f;
      if (direction.backward && decay != nullptr) scale += decay[slot];
      const bool updates = group.first + c != direction.unneeded;
      const A fresh = updates ? parts[at] : kNothing<A>, to = larger(scale, fresh);
      parts[at] = scale;
      keep[at] = factor(scale, to);
      take[at] = factor(fresh, to);
      scale = to;
      if (!direction.backward && decay != nullptr) scale += decay[slot];
    }
    running[index] = scale;
  }
};

// The scan of the sums: one element of rows of `width`, F of which per (batch, head). keep and
// take may be null: 1.
template <typename A>
struct ScanSums {
  int64_t F, width;
  Group group;
  Direction direction;
  const A *keep, *take;
  A *running, *parts;
  __device__ void operator()(int64_t index) const {
    const int64_t row = index / width, bh = row / F, f = row % F;
    A sum = running[index];
#pragma unroll 4
    for (int64_t n = 0; n < group.chunks; ++n) {
      const int64_t c = direction.backward ? group.chunks - 1 - n : n;
      const int64_t at = (bh * group.chunks + c) * F + f, element = at * width + index % width;
      const bool updates = group.first + c != direction.unneeded;
      const A fresh = updates ? parts[element] : A(0);
      parts[element] = sum;
      if (updates) sum = keep == nullptr ? sum + fresh : sum * keep[at] + fresh * take[at];
    }
    running[index] = sum;
  }
};

// The temporary memory of a call for one group of chunks: as many as give the device several rounds
// of blocks, with all states in at most 256 MiB (but at least one chunk per (batch, head)).
template <typename T>
class Sweep {
 public:
  using A = Accumulator<T>;

  Sweep(Context& ctx, const ChunkShape& shape, bool scaled)
      : count_(chunk_count(shape)),
        chunks_(chunks_of(ctx, shape, count_)),
        slots_(shape.batch_heads * chunks_),
        scaled_(scaled),
        rows_(ctx, slots_ * (7 * kTile + 1)),
        sums_(ctx, slots_ * shape.features * (shape.values + (scaled ? 4 : 1))) {
    const bool logs = shape.kind == FeatureKind::logs;
    const int64_t rows = entries(), F = slots_ * shape.features;
    A* next = rows_.data();
    const auto take = [&](int64_t count) { return std::exchange(next, next + count); };
    queries = {logs ? take(rows) : nullptr, scaled ? take(rows) : nullptr, take(rows), take(rows)};
    if (scaled) keys = {logs ? take(rows) : nullptr, take(rows), take(rows), take(slots_)};
    next = sums_.data();
    parts_ = {take(F * shape.values), take(F), scaled ? take(F) : nullptr};
    if (scaled) keep_ = take(F), take_ = take(F);
  }

  int64_t count() const { return count_; }  // chunks of the segment per (batch, head)
  // The group that starts at chunk `first`, or that ends before chunk `last`.
  Group from(int64_t first) const { return {first, std::min(chunks_, count_ - first)}; }
  Group until(int64_t last) const {
    const int64_t first = std::max<int64_t>(last - chunks_, 0);
    return {first, last - first};
  }
  int64_t entries() const { return slots_ * kTile; }  // rows of the tables

  // If the final state is not needed, the sums of a sweep's last chunk are not either.
  Direction direction(const ChunkShape& shape, bool backward) const {
    return {backward, !shape.ends ? -1 : backward ? 0 : count_ - 1};
  }

  // Accumulates the rows of a group into the running state; then `states()` are those that its
  // chunks read.
  template <NumericMode kMode, typename Values>
  void carry(Context& ctx, const ChunkShape& shape, const Group& group, const Update<T, Values>& in,
             const Direction& direction, const ChunkState<A>& running, bool decays = true) {
    const int64_t F = shape.features, M = shape.values;
    if (F == 0) return;
    launch_blocks(ctx, grid_of(shape.batch_heads * group.chunks, tiles_of(M), tiles_of(F)),
                  sum_chunk<kMode, T, Values>, shape, group, in, direction, parts_);
    const int64_t rows = shape.batch_heads * F;
    if (scaled_)
      for_each(ctx, rows,
               ScanScales<A>{F, group, direction, decays ? keys.decay : nullptr, running.scale,
                             parts_.scale, keep_, take_});
    for_each(ctx, rows * M,
             ScanSums<A>{F, M, group, direction, keep_, take_, running.state, parts_.state});
    for_each(ctx, rows,
             ScanSums<A>{F, 1, group, direction, keep_, take_, running.key_sum, parts_.key_sum});
  }

  // The states that the chunks of the group read; the running state if nothing was accumulated.
  States<A> states(bool updated, const ChunkState<A>& running, int64_t empty_chunk) const {
    if (updated) return {parts_.state, parts_.key_sum, parts_.scale, true, empty_chunk};
    return {running.state, running.key_sum, running.scale, false, empty_chunk};
  }

  QueryTable<A> queries;
  KeyTable<A> keys;

 private:
  static int64_t chunks_of(const Context& ctx, const ChunkShape& shape, int64_t count) {
    constexpr int64_t kRounds = 16, kElements = int64_t{1} << 26;
    const int64_t per_bh = std::max<int64_t>(shape.features * shape.values, 1);
    const int64_t blocks = kRounds * ctx.sizes.blocks / std::max<int64_t>(shape.batch_heads, 1);
    const int64_t held = kElements / std::max<int64_t>(shape.batch_heads * per_bh, 1);
    const int64_t max = std::clamp<int64_t>(std::min(blocks, held), 1, std::max<int64_t>(count, 1));
    const int64_t groups = (count + max - 1) / max;  // groups of about equal size
    return groups == 0 ? 1 : (count + groups - 1) / groups;
  }

  int64_t count_, chunks_, slots_;
  bool scaled_;
  Workspace<A> rows_, sums_;
  Parts<A> parts_{};
  A *keep_ = nullptr, *take_ = nullptr;
};

template <NumericMode kMode, typename T>
void make_keys(Context& ctx, const ChunkShape& shape, const Group& group, const ChunkInput<T>& in,
               const Sweep<T>& sweep) {
  if (kMode != NumericMode::plain)
    for_each_row(ctx, shape.batch_heads * group.chunks,
                 MakeKeys<kMode, T>{shape, group, in.k, in.weight, in.decay, sweep.keys});
}

template <typename T>
Update<T> key_update(const ChunkInput<T>& in, const Sweep<T>& sweep) {
  return {in.k, {in.v, nullptr}, sweep.keys.top, sweep.keys.offset, nullptr, true};
}
template <typename T>
Update<T> query_update(const ChunkInput<T>& in, const HeadRows<const T>& dy,
                       const Sweep<T>& sweep) {
  const QueryTable<Accumulator<T>>& queries = sweep.queries;
  return {in.q, {dy, queries.inverse}, queries.top, queries.offset, queries.grad, false};
}

}  // namespace linea::cuda

// Propagates a state over the chunks of a group, in either direction (cuda/chunk.h): tables of the
// rows' logs, scales and denominators, the sums of each chunk, and the scan that accumulates them.
#pragma once

#include <algorithm>
#include <utility>

#include "cuda/chunk.h"

namespace linea::cuda {

// ---- tables ----

// The largest log of a row, 0 if every feature is 0; all lanes of a warp call it.
template <typename T>
__device__ Accumulator<T> top_of(const T* logs, int64_t F) {
  using A = Accumulator<T>;
  A top = kNothing<A>;
  for (int64_t f = own_lane(); f < F; f += kWarp) top = larger(top, A(logs[f]));
  top = warp_max(top);
  return top == kNothing<A> ? A(0) : top;
}

// Keys of a chunk: o_j = top_j + log w_j - L_j.
template <NumericMode kMode, typename T>
struct MakeKeys {
  using A = Accumulator<T>;
  ChunkShape shape;
  Group group;
  HeadRows<const T> k;
  Strided<const T> weight, decay;
  KeyTable<A> to;

  __device__ void operator()(int64_t slot) const {
    __shared__ double top[kTile], lost[kTile];
    __shared__ A offset[kTile];
    const Chunk chunk = chunk_at(shape, group, slot);
    const int i = static_cast<int>(threadIdx.x);
    const bool of_logs = kMode == NumericMode::logs && k.data != nullptr;
    if (of_logs)
      for (int j = own_warp(); j < chunk.keys; j += kBlockWarps) {
        const A max = top_of(k.at(chunk.bh, chunk.first + j), shape.features);
        if (own_lane() == 0) top[j] = static_cast<double>(to.top[slot * kTile + j] = max);
      }
    if (i < chunk.keys)
      lost[i] = decay.data == nullptr ? 0.0 : double(A(decay.at(chunk.bh)[chunk.first + i]));
    __syncthreads();
    double past = 0;  // L
    if (i < kTile)
      for (int j = 0; j <= i && j < chunk.keys; ++j) past += lost[j];
    if (i < chunk.keys) {
      const double own =
          weight.data == nullptr ? 0.0 : double(A(weight.at(chunk.bh)[chunk.first + i]));
      offset[i] = static_cast<A>((of_logs ? top[i] : 0.0) + own - past);
      to.offset[slot * kTile + i] = offset[i];
    }
    if (i == kTile - 1) to.decay[slot] = static_cast<A>(past);
    __syncthreads();
    if (i < kTile) {
      A max = kNothing<A>;
      for (int j = 0; j <= i && j < chunk.keys; ++j) max = larger(max, offset[j]);
      to.max[slot * kTile + i] = max;
    }
    __syncthreads();
  }
};

// Queries of a chunk: denominator is null if only top is needed, grad (e) if it is not known yet.
template <NumericMode kMode, typename T>
struct MakeQueries {
  using A = Accumulator<T>;
  ChunkShape shape;
  Group group;
  HeadRows<const T> q;
  Strided<A> denominator, scale;
  Strided<const A> grad;
  QueryTable<A> to;

  __device__ void operator()(int64_t slot) const {
    const Chunk chunk = chunk_at(shape, group, slot);
    const int i = static_cast<int>(threadIdx.x);
    if (kMode == NumericMode::logs)
      for (int row = own_warp(); row < chunk.rows; row += kBlockWarps) {
        const A top = top_of(q.at(chunk.bh, chunk.first + row), shape.features);
        if (own_lane() == 0) to.top[chunk.entry + row] = top;
      }
    if (i >= chunk.rows || denominator.data == nullptr) return;
    to.inverse[chunk.entry + i] = reciprocal_or_zero(denominator.at(chunk.bh)[chunk.first + i]);
    if (grad.data != nullptr) to.grad[chunk.entry + i] = grad.at(chunk.bh)[chunk.first + i];
    if (kMode != NumericMode::plain)
      to.offset[chunk.entry + i] = -scale.at(chunk.bh)[chunk.first + i];
  }
};

// ---- sums and scans ----

// Rows x, or x / d if inverse is not null.
template <typename T>
struct GivenValues {
  using A = Accumulator<T>;
  HeadRows<const T> x;
  const A* inverse;
  struct Of {
    TileRows<T> rows;
    const A* inverse;
    __device__ A or_zero(int i, int64_t m) const {
      const A value = rows.or_zero(i, m);
      return inverse == nullptr ? value : value * inverse[i];
    }
  };
  __device__ Of of(const ChunkShape& shape, const Chunk& chunk, int count) const {
    return {tile_rows(x, chunk.bh, chunk.first, count, shape.values),
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

// The sums of one chunk, a tile of features by one of values a block.
template <NumericMode kMode, typename T, typename Values>
__global__ void __launch_bounds__(kBlockThreads)
    sum_chunk(ChunkShape shape, Group group, Update<T, Values> in,
              ChunkState<Accumulator<T>> parts) {
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
  if (!group.updates(chunk.slot % group.chunks)) return;
  const int count = in.keys ? chunk.keys : chunk.rows;
  const Rows<kMode, T> rows = chunk_rows<kMode>(shape, in.rows, chunk, count, in.top);

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
      by_columns(in.x.of(shape, chunk, count), first_m), panels);
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
  const A* decay;
  A *running, *parts, *keep, *take;
  __device__ void operator()(int64_t index) const {
    const int64_t bh = index / F, f = index % F;
    A scale = running[index];
    for (int64_t n = 0; n < group.chunks; ++n) {
      const int64_t c = group.at(n), slot = bh * group.chunks + c;
      const int64_t at = slot * F + f;
      if (group.backward && decay != nullptr) scale += decay[slot];
      const A fresh = group.updates(c) ? parts[at] : kNothing<A>, to = larger(scale, fresh);
      parts[at] = scale;
      keep[at] = factor(scale, to);
      take[at] = factor(fresh, to);
      scale = to;
      if (!group.backward && decay != nullptr) scale += decay[slot];
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
  const A *keep, *take;
  A *running, *parts;
  __device__ void operator()(int64_t index) const {
    const int64_t row = index / width, bh = row / F, f = row % F;
    A sum = running[index];
#pragma unroll 4
    for (int64_t n = 0; n < group.chunks; ++n) {
      const int64_t c = group.at(n);
      const int64_t at = (bh * group.chunks + c) * F + f, element = at * width + index % width;
      const bool updates = group.updates(c);
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

  Sweep(Context& ctx, const ChunkShape& shape, bool scaled, bool backward)
      : all_{0, chunk_count(shape), backward},
        chunks_(chunks_of(ctx, shape, all_.chunks)),
        slots_(shape.batch_heads * chunks_),
        scaled_(scaled),
        rows_(ctx, slots_ * (7 * kTile + 1)),
        sums_(ctx, slots_ * shape.features * (shape.values + (scaled ? 4 : 1))) {
    const int64_t first = backward ? all_.chunks - 1 : 0, last = backward ? 0 : all_.chunks - 1;
    if (shape.starts) all_.empty = first;
    if (shape.ends) all_.unneeded = last;
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

  int64_t entries() const { return slots_ * kTile; }  // rows of the tables

  // Calls body(group) for one group of the segment after another.
  template <typename Body>
  void each_group(const Body& body) const {
    for (int64_t done = 0; done < all_.chunks; done += chunks_) {
      Group group = all_;
      group.chunks = std::min(chunks_, all_.chunks - done);
      group.first = all_.backward ? all_.chunks - done - group.chunks : done;
      body(group);
    }
  }

  // Accumulates the rows of a group into the running state; then `states()` are those that its
  // chunks read.
  template <NumericMode kMode, typename Values>
  void carry(Context& ctx, const ChunkShape& shape, const Group& group, const Update<T, Values>& in,
             const ChunkState<A>& running, bool decays = true) {
    const int64_t F = shape.features, M = shape.values;
    if (F == 0) return;
    launch_blocks(ctx, grid_of(shape.batch_heads * group.chunks, tiles_of(M), tiles_of(F)),
                  sum_chunk<kMode, T, Values>, shape, group, in, parts_);
    const int64_t rows = shape.batch_heads * F;
    if (scaled_)
      for_each(ctx, rows,
               ScanScales<A>{F, group, decays ? keys.decay : nullptr, running.scale, parts_.scale,
                             keep_, take_});
    for_each(ctx, rows * M, ScanSums<A>{F, M, group, keep_, take_, running.state, parts_.state});
    for_each(ctx, rows, ScanSums<A>{F, 1, group, keep_, take_, running.key_sum, parts_.key_sum});
  }

  // The states that the chunks of the group read; the running state if nothing was accumulated.
  States<A> states(bool updated, const ChunkState<A>& running) const {
    const ChunkState<A>& of = updated ? parts_ : running;
    return {of.state, of.key_sum, of.scale, updated};
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

  Group all_;  // chunks of the segment
  int64_t chunks_, slots_;
  bool scaled_;
  Workspace<A> rows_, sums_;
  ChunkState<A> parts_{};  // of each slot
  A *keep_ = nullptr, *take_ = nullptr;
};

template <NumericMode kMode, typename T>
void make_keys(Context& ctx, const ChunkShape& shape, const Group& group, const ChunkInput<T>& in,
               const Sweep<T>& sweep) {
  if (kMode != NumericMode::plain)
    for_each_row(ctx, shape.batch_heads * group.chunks,
                 MakeKeys<kMode, T>{shape, group, in.k, in.weight, in.decay, sweep.keys});
}

// The sweep over the keys of a segment: calls read(group, states) for the groups whose queries read.
template <NumericMode kMode, typename T, typename Read>
void sweep_keys(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                const ChunkState<Accumulator<T>>& running, Sweep<T>& sweep, const Read& read) {
  const bool updates = in.k.data != nullptr;
  sweep.each_group([&](const Group& group) {
    if (updates) {
      make_keys<kMode>(ctx, shape, group, in, sweep);
      sweep.template carry<kMode>(
          ctx, shape, group,
          Update<T>{in.k, {in.v, nullptr}, sweep.keys.top, sweep.keys.offset, nullptr, true},
          running);
    }
    if (in.q.data != nullptr) read(group, sweep.states(updates, running));
  });
}

}  // namespace linea::cuda

// Shared by the kernels of the sum rule: the rows of a chunk, their logs and scales. Formulas and
// the definition of the scales: tensor/cpu/chunk.h. Chunks of one or more tiles of 64 positions are
// processed in parallel, one group of chunks at a time:
//
//   each chunk's keys (backward: queries) are summed separately           cuda/chunk_sweep.h
//   a scan over the chunks of a group accumulates these sums into the running state, and replaces
//   each chunk's sums by the state that the chunk reads
//   each tile's rows are computed from that state and from products with the tiles of its chunk
//   that they see
#pragma once

#include <limits>
#include <type_traits>

#include "cuda/tile.h"
#include "tensor/kernels.h"
#include "tensor/workspace.h"

namespace linea::cuda {

// Protection against overflow: plain values, values with log weights, or logs throughout.
enum class NumericMode { plain, scaled, logs };

template <typename A>
__device__ A larger(A a, A b) {
  return a > b ? a : b;
}

template <typename A>
__device__ A feature_of(KernelFeature feature, A x) {
  if (feature == KernelFeature::elu) return FeatureElu<A>::value(x);
  if (feature == KernelFeature::relu) return FeatureRelu<A>::value(x);
  return x;
}
template <typename A>
__device__ A feature_derivative(KernelFeature feature, A phi) {
  if (feature == KernelFeature::elu) return FeatureElu<A>::derivative_at(phi);
  if (feature == KernelFeature::relu) return FeatureRelu<A>::derivative_at(phi);
  return A(1);
}

// Chunks first .. first + chunks - 1 of every (batch, head), each of `tiles` tiles of 64 rows.
// Chunk c of (batch, head) p has slot p chunks + c; its tile t is tile tiles slot + t of the group,
// which has 64 entries in tables.
struct Group {
  int64_t first, chunks, tiles = 1;
};

// The rows of a chunk, or of one of its tiles.
struct Chunk {
  int64_t bh, slot, entry, first;  // entry, first: of its first row, in tables and in the segment
  int rows, keys;                  // the number of rows, and of existing keys
};
__device__ inline Chunk tiles_at(const ChunkShape& shape, const Group& group, int64_t tile,
                                 int64_t tiles) {
  const int64_t slot = tile / group.tiles, bh = slot / group.chunks;
  const int64_t first =
      ((group.first + slot % group.chunks) * group.tiles + tile % group.tiles) * kTile;
  const auto of = [max = tiles * kTile](int64_t count) {
    return static_cast<int>(count < 0 ? 0 : count < max ? count : max);
  };
  const int rows = of(shape.length - first);
  const int keys =
      of(valid_keys(shape.valid, bh, shape.first + shape.length) - shape.first - first);
  return {bh, slot, tile * kTile, first, rows, keys < rows ? keys : rows};
}
__device__ inline Chunk chunk_at(const ChunkShape& shape, const Group& group, int64_t slot) {
  return tiles_at(shape, group, slot * group.tiles, group.tiles);
}
inline int64_t chunk_count(const ChunkShape& shape, int64_t tiles = 1) {
  return (shape.length + tiles * kTile - 1) / (tiles * kTile);
}
// A segment's last chunk may end with tiles without rows.
__device__ inline Chunk tile_at(const ChunkShape& shape, const Group& group, int64_t tile) {
  return tiles_at(shape, group, tile, 1);
}
// The first and last tile of the chunk that contains the tile `own`; `own` itself for modes with
// one tile per chunk, or without keys (queries).
template <NumericMode kMode, typename T>
__device__ int64_t first_tile(const Group& group, int64_t own, const T* keys) {
  return kMode != NumericMode::plain || keys == nullptr ? own : own - own % group.tiles;
}
template <NumericMode kMode, typename T>
__device__ int64_t last_tile(const Group& group, int64_t own, const T* queries) {
  return kMode != NumericMode::plain || queries == nullptr
             ? own
             : own - own % group.tiles + group.tiles - 1;
}

// Per row of a group: for keys, top, the offset o and the maximum offset so far; for queries, top,
// the offset -m, 1 / d and e. decay: the sum of the log decays of each chunk. Fields that a mode
// does not use are null.
template <typename A>
struct KeyTable {
  A *top = nullptr, *offset = nullptr, *max = nullptr, *decay = nullptr;
};
template <typename A>
struct QueryTable {
  A *top = nullptr, *offset = nullptr, *inverse = nullptr, *grad = nullptr;
};

// The states that chunks read: one per slot, or one per (batch, head).
template <typename A>
struct States {
  const A *state = nullptr, *key_sum = nullptr, *scale = nullptr;
  bool of_slot = true;
  int64_t empty_chunk = -1;  // the chunk of each (batch, head) whose state is zero
};
template <typename A>
struct StateAt {
  const A *state, *key_sum, *scale;
  bool empty;
};
template <typename A>
__device__ StateAt<A> state_at(const States<A>& states, const ChunkShape& shape, const Group& group,
                               const Chunk& chunk) {
  const int64_t F = shape.features, at = states.of_slot ? chunk.slot : chunk.bh;
  const bool empty = group.first + chunk.slot % group.chunks == states.empty_chunk;
  return {states.state + at * F * shape.values, states.key_sum + at * F,
          states.scale == nullptr ? nullptr : states.scale + at * F, empty};
}

// The queries or the keys of a chunk.
template <NumericMode kMode, typename T>
struct Rows {
  using A = Accumulator<T>;
  const T* data;
  int64_t stride;
  int count;
  KernelFeature feature;
  const A* top;

  // The stored element: a log, or the input of a feature.
  __device__ A given(int i, int64_t f) const { return A(data[i * stride + f]); }
  // The feature; exp(log - top) for logs.
  __device__ A at(int i, int64_t f) const {
    if (kMode == NumericMode::logs) return exp_of(given(i, f) - top[i]);
    return feature_of(feature, given(i, f));
  }
  __device__ A or_zero(int i, int64_t f) const { return i < count ? at(i, f) : A(0); }
};
template <NumericMode kMode, typename T>
__device__ Rows<kMode, T> chunk_rows(const ChunkShape& shape, const HeadRows<const T>& given,
                                     const Chunk& chunk, int count, const Accumulator<T>* top) {
  const bool logs = kMode == NumericMode::logs;
  return {given.at(chunk.bh, chunk.first), given.row, given.data == nullptr ? 0 : count,
          shape.feature, logs && top != nullptr ? top + chunk.entry : nullptr};
}

// Rows of M values or their gradients.
template <typename T>
struct ValueRows {
  using A = Accumulator<T>;
  const T* data;
  int64_t stride;
  int count;
  int64_t M;
  __device__ A or_zero(int i, int64_t m) const {
    return i < count && m < M ? A(data[i * stride + m]) : A(0);
  }
};
template <typename T>
__device__ ValueRows<T> value_rows(const ChunkShape& shape, const HeadRows<const T>& all,
                                   const Chunk& chunk, int count) {
  return {all.at(chunk.bh, chunk.first), all.row, all.data == nullptr ? 0 : count, shape.values};
}

// The type of the factors: bf16 on tensor cores if all are plain values; weights and logs span too
// large a range for its eight bits of precision.
template <NumericMode kMode, typename T>
using Factor = std::conditional_t<kMode == NumericMode::plain, T, Accumulator<T>>;

// The sums of a block. With tensor cores it computes two tiles of columns, which share the weights
// it computes; else one, to save registers.
template <NumericMode kMode, typename T>
using RuleSums = WideSums<Factor<kMode, T>, kByCores<Factor<kMode, T>> ? 2 : 1>;
template <NumericMode kMode, typename T>
int64_t column_blocks(int64_t columns) {
  constexpr int64_t kColumns = RuleSums<kMode, T>::kColumns;
  return columns <= kColumns ? 1 : (columns + kColumns - 1) / kColumns;
}

// A matrix of a chunk in shared memory, indexed by row and key.
template <typename A>
using Square = A[kTile][kTile + 1];

// scores = q k^T over all features, for this thread's rows and keys.
template <NumericMode kMode, typename T>
__device__ void add_scores(Sums<Factor<kMode, T>>& scores, int64_t F, const Rows<kMode, T>& q,
                           const Rows<kMode, T>& k, Panels<Factor<kMode, T>>& panels) {
  add_product<Along::terms, Along::terms>(
      scores, F, [&](int i, int64_t f) { return q.or_zero(i, f); },
      [&](int j, int64_t f) { return k.or_zero(j, f); }, panels);
}

// Calls body(RuleConstant<..>{}) with the numeric mode of a call.
template <NumericMode kMode>
struct RuleConstant {
  static constexpr NumericMode value = kMode;
};
template <typename Body>
void with_rule(const ChunkShape& shape, bool scaled, const Body& body) {
  if (shape.kind == FeatureKind::logs) return body(RuleConstant<NumericMode::logs>{});
  if (scaled) return body(RuleConstant<NumericMode::scaled>{});
  body(RuleConstant<NumericMode::plain>{});
}

}  // namespace linea::cuda

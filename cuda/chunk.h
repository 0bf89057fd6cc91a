// Shared by the kernels of the sum rule: the rows of a chunk, their logs and scales. Formulas and
// the definition of the scales: tensor/cpu/chunk.h. Chunks of 64 positions are processed in
// parallel, one group of chunks at a time:
//
//   each chunk's keys (backward: queries) are summed separately           cuda/chunk_sweep.h
//   a scan over the chunks of a group accumulates these sums into the running state, and replaces
//   each chunk's sums by the state that the chunk reads
//   each chunk's rows are computed from that state and from products with the rows that they see
//
// Plain sums of bf16 rows take cuda/walk.h instead, where their sizes allow it.
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

// Chunks first .. first + chunks - 1 of every (batch, head), each of 64 rows. Chunk c of (batch,
// head) p has slot p chunks + c, and 64 entries in tables.
struct Group {
  int64_t first, chunks;
};

struct Chunk {
  int64_t bh, slot, entry, first;  // entry, first: of its first row, in tables and in the segment
  int rows, keys;                  // the number of rows, and of existing keys
};
__device__ inline Chunk chunk_at(const ChunkShape& shape, const Group& group, int64_t slot) {
  const int64_t bh = slot / group.chunks;
  const int64_t first = (group.first + slot % group.chunks) * kTile;
  const auto of = [](int64_t count) {
    return static_cast<int>(count < 0 ? 0 : count < kTile ? count : kTile);
  };
  const int rows = of(shape.length - first);
  const int keys =
      of(valid_keys(shape.valid, bh, shape.first + shape.length) - shape.first - first);
  return {bh, slot, slot * kTile, first, rows, keys < rows ? keys : rows};
}
inline int64_t chunk_count(const ChunkShape& shape) { return (shape.length + kTile - 1) / kTile; }

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

// Sums without key weights and logs, which need no more than TF32 of bf16 rows.
inline bool is_plain(const ChunkShape& shape, const void* scale) {
  return shape.kind == FeatureKind::values && scale == nullptr;
}

// A matrix of a chunk in shared memory, indexed by row and key.
template <typename A>
using Square = A[kTile][kTile + 1];

// scores = q k^T over all features, for this thread's rows and keys.
template <NumericMode kMode, typename T>
__device__ void add_scores(Sums<Accumulator<T>>& scores, int64_t F, const Rows<kMode, T>& q,
                           const Rows<kMode, T>& k, Panels<Accumulator<T>>& panels) {
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

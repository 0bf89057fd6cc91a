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

#include <type_traits>

#include "cuda/kernel_tables.h"
#include "cuda/tile.h"
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
// head) p has slot p chunks + c, and 64 entries in tables. A sweep goes through them in order, or
// backward.
struct Group {
  int64_t first, chunks;
  bool backward = false;
  int64_t unneeded = -1, empty = -1;  // the chunks whose sums are never read, whose state is zero

  __device__ int64_t at(int64_t n) const { return backward ? chunks - 1 - n : n; }
  __device__ bool updates(int64_t c) const { return first + c != unneeded; }
};

struct Chunk {
  int64_t bh, slot, entry, first;  // entry, first: of its first row, in tables and in the segment
  int rows, keys;                  // the number of rows, and of existing keys
};
__device__ inline Chunk chunk_at(const ChunkShape& shape, const Group& group, int64_t slot) {
  const int64_t bh = slot / group.chunks;
  const int64_t first = (group.first + slot % group.chunks) * kTile;
  const int rows = within_tile(shape.length - first);
  const int keys =
      within_tile(valid_keys(shape.valid, bh, shape.first + shape.length) - shape.first - first);
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
};
template <typename A>
struct StateAt {
  TileRows<A> state;
  const A *key_sum, *scale;
  bool empty;
};
template <typename A>
__device__ StateAt<A> state_at(const States<A>& states, const ChunkShape& shape, const Group& group,
                               const Chunk& chunk) {
  const int64_t F = shape.features, M = shape.values, at = states.of_slot ? chunk.slot : chunk.bh;
  const bool empty = group.first + chunk.slot % group.chunks == group.empty;
  return {matrix_rows(states.state + at * F * M, F, M), states.key_sum + at * F,
          states.scale == nullptr ? nullptr : states.scale + at * F, empty};
}

// The queries or the keys of a chunk.
template <NumericMode kMode, typename T>
struct Rows {
  using A = Accumulator<T>;
  const T* data;
  int64_t stride, width;
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
  __device__ A or_zero(int i, int64_t f) const { return i < count && f < width ? at(i, f) : A(0); }
};
template <NumericMode kMode, typename T>
__device__ Rows<kMode, T> chunk_rows(const ChunkShape& shape, const HeadRows<const T>& given,
                                     const Chunk& chunk, int count, const Accumulator<T>* top) {
  const bool logs = kMode == NumericMode::logs;
  return {given.at(chunk.bh, chunk.first),
          given.row,
          shape.features,
          given.data == nullptr ? 0 : count,
          shape.feature,
          logs && top != nullptr ? top + chunk.entry : nullptr};
}

// Calls body(std::integral_constant<NumericMode, ..>{}) with the mode of a call. Error:
// ErrorKind::usage for bf16 where float precision is needed.
template <typename T, typename Body>
void with_mode(const ChunkShape& shape, const void* scale, const Body& body) {
  if (shape.kind == FeatureKind::values && scale == nullptr)
    return body(std::integral_constant<NumericMode, NumericMode::plain>());
  if constexpr (std::is_same_v<T, BFloat16>)
    refuse_bf16("logs, weights and decays");
  else if (shape.kind == FeatureKind::logs)
    body(std::integral_constant<NumericMode, NumericMode::logs>());
  else
    body(std::integral_constant<NumericMode, NumericMode::scaled>());
}

}  // namespace linea::cuda

// Queries, keys and values of one chunk as its products read them. Letters and scales:
// tensor/cpu/chunk.h.
#pragma once

#include <algorithm>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"
#include "tensor/cpu/small_gemm.h"
#include "tensor/formulas.h"

namespace linea::cpu {

// One chunk of one bh: its first position in the segment, its rows, and its valid keys. Row i sees
// the keys [from(i), seen(i)), the rows [first_row(j), end_row(j)) see key j; no bound decreases.
// `rounded`: products of float have factors rounded to bf16.
struct Chunk {
  int64_t first, rows, keys;
  bool rounded = false;

  static int64_t from(int64_t) { return 0; }
  int64_t seen(int64_t i) const { return std::min(i + 1, keys); }
  int64_t first_row(int64_t j) const { return std::min(j, rows); }
  int64_t end_row(int64_t) const { return rows; }
};

inline Chunk chunk_at(const ChunkShape& shape, int64_t bh, int64_t index) {
  const int64_t first = index * shape.chunk;
  const int64_t rows = std::min(shape.chunk, shape.length - first);
  const int64_t valid = valid_keys(shape.valid, bh, shape.first + shape.length) - shape.first;
  return {first, rows, std::clamp<int64_t>(valid - first, 0, rows),
          shape.products == FloatProducts::rounded};
}

inline int64_t chunk_count(const ChunkShape& shape) {
  return (shape.length + shape.chunk - 1) / shape.chunk;
}

// The queries or keys of a chunk: feature f of row i is features[i,f] exp(offset[i]). The offset of
// a query is 0 until its denominator is known.
template <typename T>
struct Rows {
  int64_t count = 0, F = 0;
  const T* features = nullptr;  // [count,F]
  const T* logs = nullptr;      // [count,F], null for values; features = exp(logs - top)
  const T* top = nullptr;       // [count]
  const T* offset = nullptr;    // [count], null where all are 0
  T decay = 0;                  // the sum of the log decays of keys
};

// Rows from `first` on as a contiguous [count,F] array of features, computed where the shape names
// one. Arena: count F.
template <typename T>
const T* expand_values(const ChunkShape& shape, const HeadRows<const T>& given, int64_t bh,
                       int64_t first, int64_t count, Arena<T>& arena) {
  const int64_t F = shape.features;
  if (given.row == F && shape.feature == KernelFeature::given) return given.at(bh, first);
  T* features = arena.take(count * F);
  const T* x = given.at(bh, first);
  with_feature<T>(shape.feature, [&](auto phi) {
    for (int64_t i = 0; i < count; ++i)
#pragma omp simd
      for (int64_t f = 0; f < F; ++f) features[i * F + f] = phi.value(x[i * given.row + f]);
  });
  return features;
}

// Rows from `first` on; log features as exponentials relative to each row's largest. Arena: 2 count
// F + count.
template <typename T>
Rows<T> expand(const ChunkShape& shape, const HeadRows<const T>& given, int64_t bh, int64_t first,
               int64_t count, Arena<T>& arena) {
  const int64_t F = shape.features;
  Rows<T> rows{count, F, expand_values(shape, given, bh, first, count, arena)};
  if (shape.kind == FeatureKind::values) return rows;
  rows.logs = rows.features;
  T *features = arena.take(count * F), *top = arena.take(count);
  for (int64_t i = 0; i < count; ++i) {
    const T* logs = rows.logs + i * F;
    T* out = features + i * F;
    T max = largest(logs, F);
    if (max == kNothing<T>) max = 0;  // every feature is 0
    top[i] = max;
#pragma omp simd
    for (int64_t f = 0; f < F; ++f) out[f] = exp_below(logs[f] - max);
  }
  rows.features = features;
  rows.top = top;
  return rows;
}

// Writes the gradient of the rows that features were computed from.
template <typename T>
void write_gradient(const ChunkShape& shape, const T* features, const T* gradient,
                    const HeadRows<T>& to, int64_t bh, int64_t first, int64_t count) {
  const int64_t F = shape.features;
  T* dx = to.at(bh, first);
  with_feature<T>(shape.feature, [&](auto phi) {
    for (int64_t i = 0; i < count; ++i)
#pragma omp simd
      for (int64_t f = 0; f < F; ++f)
        dx[i * to.row + f] = gradient[i * F + f] * phi.derivative_at(features[i * F + f]);
  });
}

// Values, their gradients or results.
template <typename T>
Operand<T> value_rows(const HeadRows<const T>& all, int64_t bh, int64_t first) {
  return plain(all.at(bh, first), all.row);
}

// Zeroes the gradients of one bh.
template <typename T>
void clear_gradients(const AttentionShape& shape, const AttentionRows<T>& grads, int64_t bh) {
  for (int64_t i = 0; i < shape.queries; ++i) std::fill_n(grads.q.at(bh, i), shape.key_size, T(0));
  for (int64_t j = 0; j < shape.keys; ++j) {
    std::fill_n(grads.k.at(bh, j), shape.key_size, T(0));
    std::fill_n(grads.v.at(bh, j), shape.value_size, T(0));
  }
}

template <typename T>
Rows<T> keys_of(const ChunkShape& shape, const ChunkInput<T>& in, int64_t bh, const Chunk& chunk,
                bool scaled, Arena<T>& arena) {
  Rows<T> keys = expand(shape, in.k, bh, chunk.first, chunk.keys, arena);
  if (!scaled) return keys;
  const T *weight = in.weight.at(bh, chunk.first), *decay = in.decay.at(bh, chunk.first);
  T* offset = arena.take(chunk.keys);
  double past = 0;  // L
  for (int64_t j = 0; j < chunk.keys; ++j) {
    if (decay != nullptr) past += static_cast<double>(decay[j]);
    offset[j] = static_cast<T>((keys.top == nullptr ? 0.0 : static_cast<double>(keys.top[j])) +
                               (weight == nullptr ? 0.0 : static_cast<double>(weight[j])) - past);
  }
  keys.offset = offset;
  keys.decay = static_cast<T>(past);
  return keys;
}

}  // namespace linea::cpu

// What the kernels of the sum rule share: chunks, the features of their rows, and the carried state. Row
// vectors throughout; for one pair, with S the state [F,M] and z the key sum [F]:
//
//   S_i = S_{i-1} + w_i k_i^T v_i     z_i = z_{i-1} + w_i k_i     d_i = q_i z_i^T     y_i = q_i S_i / d_i
//
// Plain values with no weights w are summed as they are. Everything else carries logs beside its numbers, so
// that none overflows or vanishes, and no row's numbers depend on a later key:
//   a row of log features   is exp(log - top), top its largest log: between 0 and 1
//   a key j                 weighs exp(o_j), o_j = top_j + log w_j - L_j, L_j the sum of the log decays of its
//                           chunk up to j (a decay of rows and state alike cancels in y)
//   a feature f of S and z  is to be multiplied by exp(scale_f), the largest log that went into it
//   a row i of the sums     is to be multiplied by exp(m_i), the largest of what it has seen
// The same class carries the states of the sweep forward (keys with values) and those of the sweep backward
// (queries with gradients).
#pragma once

#include <algorithm>
#include <limits>

#include "tensor/cpu/blas.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/small_gemm.h"
#include "tensor/formulas.h"

namespace linea::cpu {

template <typename T>
inline constexpr T kNothing = -std::numeric_limits<T>::infinity();  // the log of 0

// Logs that lie within this of each other may meet in one product: what is lost is exp(-87 + 40) in float.
inline constexpr double kNarrow = 40;
// A denominator below this may have lost terms that count; its row is summed again by logs.
template <typename T>
inline constexpr T kTrusted = sizeof(T) == 4 ? T(1e-25) : T(1e-200);

// exp(to - from) where something may be the log of 0.
template <typename T>
T factor(T log, T reference) {
  return log == kNothing<T> ? T(0) : exp_of(log - reference);
}

// One chunk of one pair: where it starts in its segment, its rows, and its keys that exist.
struct Chunk {
  int64_t first, rows, keys;
};

inline Chunk chunk_at(const ChunkShape& shape, int64_t pair, int64_t index) {
  const int64_t first = index * shape.chunk;
  const int64_t rows = std::min(shape.chunk, shape.length - first);
  const int64_t valid = valid_keys(shape.valid, pair, shape.first + shape.length) - shape.first;
  return {first, rows, std::clamp<int64_t>(valid - first, 0, rows)};
}

inline int64_t chunk_count(const ChunkShape& shape) { return (shape.length + shape.chunk - 1) / shape.chunk; }

// Pieces of one thread's workspace, given back together.
template <typename T>
class Arena {
 public:
  explicit Arena(T* data) : next_(data) {}
  T* take(int64_t count) {
    T* piece = next_;
    next_ += count;
    return piece;
  }

 private:
  T* next_;
};

template <typename T>
void add_row(const T* x, T* y, int64_t count, T weight) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += weight * x[i];
}

template <typename T>
void scale_row(T* x, int64_t count, T by) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) x[i] *= by;
}

template <typename T>
T dot(const T* x, const T* y, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) total += x[i] * y[i];
  return total;
}

template <typename T>
T largest(const T* x, int64_t count) {
  T most = kNothing<T>;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < count; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

// The queries or the keys of a chunk: feature f of row i is features[i,f] exp(offset[i]). (Of queries the
// offset is known only once the row's denominator is; until then it is 0.)
template <typename T>
struct Rows {
  int64_t count = 0, F = 0;
  const T* features = nullptr;  // [count,F]
  const T* logs = nullptr;      // [count,F], null for values; features = exp(logs - top)
  const T* top = nullptr;       // [count]
  const T* offset = nullptr;    // [count], null where all are 0
};

// Short rows: a loop is faster than a call for each.
template <typename T>
void copy_rows_of(const T* x, int64_t ldx, T* y, int64_t ldy, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (int64_t f = 0; f < width; ++f) y[i * ldy + f] = x[i * ldx + f];
}

// Rows `first` and on of a pair in one piece [count,F], with the feature made of them that the shape names.
// Arena: count F.
template <typename T>
const T* expand_values(const ChunkShape& shape, const HeadRows<const T>& given, int64_t pair, int64_t first,
                       int64_t count, Arena<T>& arena) {
  const int64_t F = shape.features;
  if (given.row == F && shape.feature == KernelFeature::given) return given.at(pair, first);
  T* made = arena.take(count * F);
  const T* x = given.at(pair, first);
  if (given.row != F) {
    copy_rows_of(x, given.row, made, F, count, F);
    x = made;
  }
  with_feature(shape.feature, [&](auto phi) {  // one loop: rows are short
#pragma omp simd
    for (int64_t f = 0; f < count * F; ++f) made[f] = phi.value(x[f]);
  });
  return made;
}

// The same as Rows; of logs the exponentials, relative to each row's largest. Arena: 2 count F + count.
template <typename T>
Rows<T> expand(const ChunkShape& shape, const HeadRows<const T>& given, int64_t pair, int64_t first, int64_t count,
               Arena<T>& arena) {
  const int64_t F = shape.features;
  Rows<T> rows{count, F, expand_values(shape, given, pair, first, count, arena)};
  if (shape.kind == FeatureKind::values) return rows;
  rows.logs = rows.features;
  T *features = arena.take(count * F), *top = arena.take(count);
  for (int64_t i = 0; i < count; ++i) {
    const T* logs = rows.logs + i * F;
    T* out = features + i * F;
    T most = largest(logs, F);
    if (most == kNothing<T>) most = 0;  // every feature is 0
    top[i] = most;
#pragma omp simd
    for (int64_t f = 0; f < F; ++f) out[f] = exp_of(logs[f] - most);
  }
  rows.features = features;
  rows.top = top;
  return rows;
}

// The gradient of rows of features, which becomes that of what they were made of, into place.
template <typename T>
void write_gradient(const ChunkShape& shape, const T* features, T* gradient, const HeadRows<T>& to, int64_t pair,
                    int64_t first, int64_t count) {
  const int64_t F = shape.features;
  with_feature(shape.feature, [&](auto phi) {
#pragma omp simd
    for (int64_t f = 0; f < count * F; ++f) gradient[f] *= phi.slope_at(features[f]);
  });
  copy_rows_of(gradient, F, to.at(pair, first), to.row, count, F);
}

// Values, their gradients, results: rows of M that lie `stride` apart.
template <typename T>
struct ValueRows {
  const T* data = nullptr;
  int64_t stride = 0;
};
template <typename T>
ValueRows<T> value_rows(const HeadRows<const T>& all, int64_t pair, int64_t first) {
  return {all.at(pair, first), all.row};
}

// The keys of a chunk, and the sum of its log decays.
template <typename T>
struct Keys {
  Rows<T> rows;
  T decay = 0;
};

template <typename T>
Keys<T> keys_of(const ChunkShape& shape, const ChunkInput<T>& in, int64_t pair, const Chunk& chunk,
                bool scaled, Arena<T>& arena) {
  Keys<T> keys{expand(shape, in.k, pair, chunk.first, chunk.keys, arena)};
  if (!scaled) return keys;
  const T* weight = in.weight.data == nullptr ? nullptr : in.weight.pair(pair) + chunk.first;
  const T* decay = in.decay.data == nullptr ? nullptr : in.decay.pair(pair) + chunk.first;
  T* offset = arena.take(chunk.keys);
  double past = 0;  // L
  for (int64_t j = 0; j < chunk.keys; ++j) {
    if (decay != nullptr) past += static_cast<double>(decay[j]);
    offset[j] = static_cast<T>((keys.rows.top == nullptr ? 0.0 : static_cast<double>(keys.rows.top[j])) +
                               (weight == nullptr ? 0.0 : static_cast<double>(weight[j])) - past);
  }
  keys.rows.offset = offset;
  keys.decay = static_cast<T>(past);
  return keys;
}

// A carried state as the rows of a chunk read it: row i gets features[i] state exp(scale[i]).
template <typename T>
struct Reading {
  const T *features = nullptr, *state = nullptr, *key_sum = nullptr;  // state null: there is nothing in it
  const T* scale = nullptr;  // [count]; null: all 0
  bool own_features = false;  // features differ from those of the rows: the state's logs are in them
};

// The state of one pair. What is taken from an arena is said at each method.
template <typename T>
class Carried {
 public:
  Carried(const ChunkState<T>& all, int64_t pair, int64_t F, int64_t M)
      : F_(F),
        M_(M),
        state_(all.state + pair * F * M),
        key_sum_(all.key_sum + pair * F),
        scale_(all.scale == nullptr ? nullptr : all.scale + pair * F) {}

  // S += sum_i features_i^T x_i, z += sum_i weight_i features_i; every weight is 1 where it is null.
  // Arena: C (F + M) + F M + 2 F.
  void absorb(const Rows<T>& rows, const ValueRows<T>& x, const T* weight, Arena<T> arena) {
    if (rows.count == 0 || F_ == 0) return;
    if (scale_ == nullptr) return add(rows.features, x, weight, rows.count, state_, key_sum_);
    if (rows.logs == nullptr) return absorb_values(rows, x, weight, arena);
    absorb_logs(rows, x, weight, arena);
  }

  // Everything in the state weighs exp(log) times as much.
  void decay(T log) {
    if (scale_ == nullptr || log == T(0)) return;
    for (int64_t f = 0; f < F_; ++f) scale_[f] += log;
  }

  // Arena: C F + C + F M + F.
  Reading<T> read(const Rows<T>& rows, bool empty, Arena<T>& arena) const {
    if (scale_ == nullptr) return {rows.features, empty ? nullptr : state_, key_sum_};
    const T most = largest(scale_, F_);
    T* scale = arena.take(rows.count);
    std::fill_n(scale, rows.count, most);
    if (empty || most == kNothing<T>) return {rows.features, nullptr, key_sum_, scale};
    if (rows.logs == nullptr) return {rows.features, state_, key_sum_, scale};
    const T least = *std::min_element(scale_, scale_ + F_);
    if (most - least <= T(kNarrow)) {
      T *state = arena.take(F_ * M_), *key_sum = arena.take(F_);
      for (int64_t f = 0; f < F_; ++f) {
        const T by = exp_of(scale_[f] - most);
        key_sum[f] = by * key_sum_[f];
        for (int64_t m = 0; m < M_; ++m) state[f * M_ + m] = by * state_[f * M_ + m];
      }
      return {rows.features, state, key_sum, scale};
    }
    T* features = arena.take(rows.count * F_);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* logs = rows.logs + i * F_;
      T* out = features + i * F_;
      for (int64_t f = 0; f < F_; ++f) out[f] = logs[f] + scale_[f];
      const T top = largest(out, F_);
      scale[i] = top - rows.top[i];
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f) out[f] = exp_of(out[f] - top);
      if (top == kNothing<T>) std::fill_n(out, F_, T(0));
    }
    return {features, state_, key_sum_, scale, true};
  }

 private:
  // The chunk is summed first: small terms added to a large z one by one are all rounded the same way, an
  // error that grows with the length.
  void add(const T* features, const ValueRows<T>& x, const T* weight, int64_t count, T* state, T* key_sum) const {
    small_gemm(F_, M_, count, transposed(features, F_), x.data, x.stride, state, M_, true);
    constexpr int64_t kBlock = 64;
    for (int64_t begin = 0; begin < F_; begin += kBlock) {
      const int64_t width = std::min(kBlock, F_ - begin);
      T total[kBlock] = {};
      for (int64_t i = 0; i < count; ++i)
        add_row(features + i * F_ + begin, total, width, weight == nullptr ? T(1) : weight[i]);
      add_row(total, key_sum + begin, width, T(1));
    }
  }

  void rescale(int64_t f, T to) {
    if (scale_[f] == to) return;
    const T by = factor(scale_[f], to);
    scale_row(state_ + f * M_, M_, by);
    key_sum_[f] *= by;
    scale_[f] = to;
  }

  // x and weight times exp(offset - reference), in pieces of the arena.
  std::pair<ValueRows<T>, T*> weighed(const Rows<T>& rows, const ValueRows<T>& x, const T* weight, T reference,
                                      Arena<T>& arena) const {
    T *scaled = arena.take(rows.count * M_), *weights = arena.take(rows.count);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T by = factor(rows.offset[i], reference);
      weights[i] = weight == nullptr ? by : by * weight[i];
      for (int64_t m = 0; m < M_; ++m) scaled[i * M_ + m] = by * x.data[i * x.stride + m];
    }
    return {{scaled, M_}, weights};
  }

  void absorb_values(const Rows<T>& rows, const ValueRows<T>& x, const T* weight, Arena<T> arena) {
    const T most = std::max(largest(rows.offset, rows.count), scale_[0]);
    if (most == kNothing<T>) return;
    for (int64_t f = 0; f < F_; ++f) rescale(f, most);
    const auto [scaled, weights] = weighed(rows, x, weight, most, arena);
    add(rows.features, scaled, weights, rows.count, state_, key_sum_);
  }

  void absorb_logs(const Rows<T>& rows, const ValueRows<T>& x, const T* weight, Arena<T> arena) {
    T* column = arena.take(F_);  // the largest log of each feature in the chunk
    std::fill_n(column, F_, kNothing<T>);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* logs = rows.logs + i * F_;
      const T shift = rows.offset[i] - rows.top[i];
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f) column[f] = std::max(column[f], logs[f] + shift);
    }
    const T most = largest(column, F_);
    if (most == kNothing<T>) return;
    T least = most;
    for (int64_t f = 0; f < F_; ++f)
      if (column[f] != kNothing<T>) least = std::min(least, column[f]);
    for (int64_t f = 0; f < F_; ++f)
      if (column[f] > scale_[f]) rescale(f, column[f]);

    if (most - least <= T(kNarrow)) {
      T *state = arena.take(F_ * M_), *key_sum = arena.take(F_);
      std::fill_n(state, F_ * M_, T(0));
      std::fill_n(key_sum, F_, T(0));
      const auto [scaled, weights] = weighed(rows, x, weight, most, arena);
      add(rows.features, scaled, weights, rows.count, state, key_sum);
      for (int64_t f = 0; f < F_; ++f) {
        if (column[f] == kNothing<T>) continue;
        const T by = exp_of(most - scale_[f]);
        add_row(state + f * M_, state_ + f * M_, M_, by);
        key_sum_[f] += by * key_sum[f];
      }
      return;
    }
    T* features = arena.take(rows.count * F_);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* logs = rows.logs + i * F_;
      const T shift = rows.offset[i] - rows.top[i];
      for (int64_t f = 0; f < F_; ++f) features[i * F_ + f] = factor(logs[f] + shift, scale_[f]);
    }
    add(features, x, weight, rows.count, state_, key_sum_);
  }

  int64_t F_, M_;
  T *state_, *key_sum_, *scale_;
};

// Workspace of one thread, enough for any of the kernels: the arenas above, the chunk's own matrices.
inline int64_t chunk_workspace(const ChunkShape& shape) {
  const int64_t C = shape.chunk, F = shape.features, M = shape.values;
  return 10 * C * F + 3 * C * C + 5 * C * M + 3 * F * M + 6 * F + 12 * C;
}

// visible[i,j] = exp(o_j - m_i) where row i sees key j, else 0; rows that `leave_out` says are all 0.
template <typename T, typename LeaveOut>
void weigh_visible(const T* offset, const T* row_scale, const Chunk& chunk, T* visible,
                   const LeaveOut& leave_out) {
  for (int64_t i = 0; i < chunk.rows; ++i) {
    T* row = visible + i * chunk.keys;
    const int64_t seen = leave_out(i) ? 0 : std::min(i + 1, chunk.keys);
    const T reference = row_scale[i];
#pragma omp simd
    for (int64_t j = 0; j < seen; ++j) row[j] = exp_of(offset[j] - reference);
    std::fill(row + seen, row + chunk.keys, T(0));
  }
}

// The products of rows and keys of a chunk, [rows, keys], are made in bands: of what lies above the diagonal
// only the corners of its blocks is computed, and no product reads more.
inline constexpr int64_t kBand = 16;

// body(first row, rows, the keys that the last of them sees)
template <typename Body>
void each_band(const Chunk& chunk, const Body& body) {
  for (int64_t first = 0; first < chunk.rows; first += kBand) {
    const int64_t rows = std::min(kBand, chunk.rows - first);
    body(first, rows, std::min(first + rows, chunk.keys));
  }
}

// scores = x z^T, both with rows of `inner`; arena: keys x inner.
template <typename T>
void band_products(const Chunk& chunk, int64_t inner, const ValueRows<T>& x, const ValueRows<T>& z, T* scores,
                   Arena<T> arena) {
  const int64_t K = chunk.keys;
  T* columns = arena.take(inner * K);
  transpose(K, inner, z.data, z.stride, columns, K);
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    small_gemm(rows, seen, inner, plain(x.data + first * x.stride, x.stride), columns, K, scores + first * K, K,
               false);
  });
}

// y_i += sum_{j <= i} scores_ij x_j, rows of `width`
template <typename T>
void add_past(const Chunk& chunk, int64_t width, const T* scores, const ValueRows<T>& x, T* y, int64_t ldy) {
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    small_gemm(rows, width, seen, plain(scores + first * chunk.keys, chunk.keys), x.data, x.stride, y + first * ldy,
               ldy, true);
  });
}

// y_j += sum_{i >= j} scores_ij x_i
template <typename T>
void add_future(const Chunk& chunk, int64_t width, const T* scores, const ValueRows<T>& x, T* y, int64_t ldy) {
  for (int64_t first = 0; first < chunk.keys; first += kBand) {
    const int64_t keys = std::min(kBand, chunk.keys - first);
    small_gemm(keys, width, chunk.rows - first, transposed(scores + first * chunk.keys + first, chunk.keys),
               x.data + first * x.stride, x.stride, y + first * ldy, ldy, true);
  }
}

// Zeroes what row i of a [rows, keys] matrix must not see, within its band.
template <typename T>
void keep_past(T* scores, const Chunk& chunk) {
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    for (int64_t i = first; i < first + rows; ++i)
      for (int64_t j = i + 1; j < seen; ++j) scores[i * chunk.keys + j] = T(0);
  });
}

}  // namespace linea::cpu

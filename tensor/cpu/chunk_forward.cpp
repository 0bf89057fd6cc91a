// The forward pass of the sum rule over a segment: chunks as matrix products, and a running state
// between them. Formulas in tensor/cpu/chunk.h.
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// y = features S
template <typename T>
void read_state(const ChunkWork<T>& chunk, const Reading<T>& past, const Strided<T>& y) {
  const int64_t F = chunk.shape.features, M = chunk.shape.values;
  if (past.state == nullptr) {
    for (int64_t i = 0; i < chunk.rows; ++i) std::fill_n(y.at(i), M, T(0));
  } else {
    multiply(chunk.rounded, {chunk.rows, M, F}, plain(past.features, F), plain(past.state, M), y,
             false, Arena<T>(nullptr));
  }
}

// y = q S / (q z), within the chunk by the masked product q k^T; no scales.
template <typename T>
void read_plain(ChunkWork<T> chunk, const Rows<T>& q, const Reading<T>& past, const Strided<T>& y,
                T* denominator) {
  const int64_t F = chunk.shape.features;
  const Rows<T>& k = chunk.k;
  read_state(chunk, past, y);
  for (int64_t i = 0; i < chunk.rows; ++i)
    denominator[i] = past.state == nullptr ? T(0) : dot(q.features + i * F, past.key_sum, F);
  if (k.count == 0) return;
  T* const scores = chunk.arena.take(chunk.rows * chunk.rows);
  band_products(chunk, F, {q.features, F}, {k.features, F}, scores, chunk.arena);
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t keys) {
    for (int64_t i = first; i < first + rows; ++i) {
      T *row = scores + i * k.count, sum = 0;
      const int64_t seen = std::min(i + 1, keys);
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < seen; ++j) sum += row[j];
      denominator[i] += sum;
      std::fill(row + seen, row + keys, T(0));
    }
  });
  add_past(chunk, chunk.shape.values, scores, chunk.v, y.data, y.stride);
}

// log a_ij, relative to q_i's largest feature: log sum_f exp(...).
template <typename T>
T log_score(const Rows<T>& q, const Rows<T>& k, int64_t i, int64_t j) {
  const T *logs_q = q.logs + i * q.F, *logs_k = k.logs + j * k.F;
  T max = kNothing<T>, sum = 0;
  for (int64_t f = 0; f < q.F; ++f) max = std::max(max, logs_q[f] + logs_k[f]);
  if (max == kNothing<T>) return max;
  for (int64_t f = 0; f < q.F; ++f) sum += exp_of(logs_q[f] + logs_k[f] - max);
  return max + std::log(sum) - q.top[i] + (k.offset[j] - k.top[j]);
}

// As read_plain, with scales m of the rows.
template <typename T>
void read_scaled(ChunkWork<T> chunk, const Rows<T>& q, const Reading<T>& past, const Strided<T>& y,
                 T* denominator, T* row_scale) {
  const int64_t F = chunk.shape.features, M = chunk.shape.values;
  const Rows<T>& k = chunk.k;
  T* const scores = chunk.arena.take(chunk.rows * chunk.rows);
  read_state(chunk, past, y);
  if (k.count > 0) band_products(chunk, F, {q.features, F}, {k.features, F}, scores, chunk.arena);
  T max = kNothing<T>;  // over the chunk's keys up to i
  for (int64_t i = 0; i < chunk.rows; ++i) {
    const int64_t seen = std::min(i + 1, k.count);
    T* row = scores + i * k.count;
    if (i < k.count) max = std::max(max, k.offset[i]);
    const T before = past.state == nullptr ? T(0) : dot(past.features + i * F, past.key_sum, F);
    T m = std::max(max, past.scale[i]);
    if (m == kNothing<T>) m = 0;  // no visible key: the row is 0
    T sum = factor(past.scale[i], m) * before;
#pragma omp simd
    for (int64_t j = 0; j < seen; ++j) row[j] *= factor(k.offset[j], m);
    for (int64_t j = 0; j < seen; ++j) sum += row[j];  // in order
    if (q.logs != nullptr && seen > 0 && sum < kMinTrustedDenominator<T>) {
      m = past.scale[i];
      for (int64_t j = 0; j < seen; ++j) m = std::max(m, row[j] = log_score(q, k, i, j));
      if (m == kNothing<T>) m = 0;
      sum = factor(past.scale[i], m) * before;
      for (int64_t j = 0; j < seen; ++j) sum += row[j] = factor(row[j], m);
    }
    std::fill(row + seen, row + k.count, T(0));
    scale_row(y.at(i), M, factor(past.scale[i], m));
    denominator[i] = sum;
    row_scale[i] = m;
  }
  if (k.count > 0) add_past(chunk, M, scores, chunk.v, y.data, y.stride);
}

}  // namespace

template <typename T>
void chunk_forward(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                   const ChunkState<T>& states, HeadRows<T> y, const ChunkRows<T>& saved) {
  const ChunkShape shape = with_products(ctx, given, in);
  sweep_forward(
      ctx, shape, in, states, [&](ChunkWork<T> chunk, const StateAccumulator<T>& running) {
        const Rows<T> q = expand(shape, in.q, chunk.bh, chunk.first, chunk.rows, chunk.arena);
        const Reading<T> past = running.read(q, chunk.empty, chunk.arena);
        const Strided<T> rows_y{y.at(chunk.bh, chunk.first), y.row};
        T* const d = saved.denominator.at(chunk.bh, chunk.first);
        if (states.scale == nullptr)
          read_plain(chunk, q, past, rows_y, d);
        else
          read_scaled(chunk, q, past, rows_y, d, saved.scale.at(chunk.bh, chunk.first));
        for (int64_t i = 0; i < chunk.rows; ++i)
          scale_row(rows_y.at(i), shape.values, reciprocal_or_zero(d[i]));
      });
}

LINEA_KERNEL_TABLE(ChunkForwardKernels, .chunk_forward = chunk_forward<T>)

}  // namespace linea::cpu

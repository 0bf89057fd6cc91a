// The backward pass of the sum rule over a segment. With the weights w_ij = (q_i . k_j) exp(o_j -
// m_i) of the forward pass, d_i = sum_j w_ij and y_i = sum_j w_ij v_j / d_i (tensor/cpu/chunk.h):
//
//   n_i = dy_i / d_i    e_i = -(dy_i . y_i) / d_i    dw_ij = n_i . v_j + e_i
//   dq_i = sum_j dw_ij exp(o_j - m_i) k_j            dk_j = sum_i dw_ij exp(o_j - m_i) q_i
//   dv_j = sum_i w_ij n_i
//
// The forward sweep computes dq and e from the states S, z; the backward sweep computes dk and dv
// from the states R = sum q^T n and r = sum e q of later rows. With log features the gradients are
// those of the logs: q o dq, k o dk. The scales are constants here: they cancel. The gradient of a
// key's log weight is sum_i w_ij dw_ij = k_j . dk_j.
#pragma once

#include "tensor/cpu/chunk.h"

namespace linea::cpu {

// The queries of a chunk, for both sweeps.
template <typename T>
struct QueryRows {
  Rows<T> rows;          // with offset -m_i
  const T* denominator;  // d
  const T* row_scale;    // m; null: no scales
  const T* numerator;    // n
  const bool* by_logs;   // rows that the forward pass summed by logs within the chunk; null: none
};

template <typename T>
QueryRows<T> queries_of(ChunkWork<T>& chunk, const ChunkInput<T>& in, const HeadRows<const T>& dy,
                        const ChunkRows<T>& saved) {
  const int64_t M = chunk.shape.values, bh = chunk.bh;
  Arena<T>& arena = chunk.arena;
  QueryRows<T> q{expand(chunk.shape, in.q, bh, chunk.first, chunk.rows, arena),
                 saved.denominator.at(bh, chunk.first), nullptr, nullptr, nullptr};
  T* const numerator = arena.take(chunk.rows * M);
  for (int64_t i = 0; i < chunk.rows; ++i)
    copy_scaled(dy.at(bh, chunk.first + i), numerator + i * M, M,
                reciprocal_or_zero(q.denominator[i]));
  q.numerator = numerator;
  if (saved.scale.data == nullptr) return q;
  q.row_scale = saved.scale.at(bh, chunk.first);
  T *offset = arena.take(chunk.rows), max = kNothing<T>;
  bool* const by_logs = arena.take_flags(chunk.rows);
  for (int64_t i = 0; i < chunk.rows; ++i) {
    offset[i] = -q.row_scale[i];
    if (i < chunk.k.count) max = std::max(max, chunk.k.offset[i]);
    by_logs[i] =
        q.rows.logs != nullptr && q.row_scale[i] < max;  // else m_i is at least the largest
  }
  q.rows.offset = offset;
  q.by_logs = by_logs;
  return q;
}

// visible[i,j] = exp(o_j - m_i) where row i sees key j, else 0, also in rows that were summed by logs;
// null where there are no scales: all 1.
template <typename T>
const T* visible_of(const QueryRows<T>& q, ChunkWork<T>& chunk) {
  if (q.row_scale == nullptr) return nullptr;
  T* visible = chunk.arena.take(chunk.rows * chunk.keys);
  for (int64_t i = 0; i < chunk.rows; ++i) {
    T* row = visible + i * chunk.keys;
    const int64_t seen = q.by_logs[i] ? 0 : std::min(i + 1, chunk.keys);
    const T reference = q.row_scale[i];
#pragma omp simd
    for (int64_t j = 0; j < seen; ++j) row[j] = exp_of(chunk.k.offset[j] - reference);
    std::fill(row + seen, row + chunk.keys, T(0));
  }
  return visible;
}

template <typename T>
void apply_visible(const T* visible, const Chunk& chunk, T* scores) {
  if (visible == nullptr) return hide_unseen(chunk, scores);
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    for (int64_t i = first * chunk.keys; i < (first + rows) * chunk.keys; i += chunk.keys)
      for (int64_t j = i; j < i + seen; ++j)
        scores[j] = visible[j] == T(0) ? T(0) : scores[j] * visible[j];
  });
}

// dw_ij = n_i . v_j + e_i from the products n_i . v_j, and `seen`, dw_ij exp(o_j - m_i), the same
// matrix where there are no scales.
template <typename T>
void add_denominator_gradients(const T* e, const T* visible, const Chunk& chunk, T* grads,
                               T* seen) {
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t keys) {
    for (int64_t i = first; i < first + rows; ++i) {
      const int64_t row = i * chunk.keys, past = row + std::min(i + 1, keys);
      const T grad_d = e[i];
#pragma omp simd
      for (int64_t ij = row; ij < past; ++ij) grads[ij] += grad_d;
      for (int64_t ij = row; visible != nullptr && ij < past; ++ij)
        seen[ij] = visible[ij] == T(0) ? T(0) : grads[ij] * visible[ij];
      std::fill(seen + past, seen + row + keys, T(0));
    }
  });
}

// w_ijf of row i and key j for each feature, from the logs; body(f, w).
template <typename T, typename Body>
void each_weight(const QueryRows<T>& q, const Rows<T>& k, int64_t i, int64_t j, const Body& body) {
  const T *logs_q = q.rows.logs + i * k.F, *logs_k = k.logs + j * k.F;
  const T rest = k.offset[j] - k.top[j] - q.rows.top[i] - q.row_scale[i];
  for (int64_t f = 0; f < k.F; ++f) body(f, exp_of(logs_q[f] + logs_k[f] + rest));
}

// Where the gradient through the products inside the chunk is summed: in dx or, where the state was
// read with features of its own, by which dx is multiplied here, in zeros of the arena.
template <typename T>
T* gradient_inside(const Reading<T>& state, T* dx, int64_t count, Arena<T>& arena) {
  if (!state.own_features) return dx;
  multiply_rows(state.features, dx, count);
  T* const inside = arena.take(count);
  std::fill_n(inside, count, T(0));
  return inside;
}

// y = x S^T for rows x of M and a state [F,M]. Arena: F M.
template <typename T>
void multiply_transposed(int64_t rows, int64_t F, int64_t M, const Operand<T>& x, const T* state,
                         T* y, bool add, Arena<T> arena, bool rounded = false) {
  multiply(rounded, {rows, F, M}, x, transposed(state, M), {y, F}, add, arena);
}

}  // namespace linea::cpu

// Rules without denominator whose state decays by a number of each feature, one segment at a time (Yang
// 2024, "Gated linear attention"; Kimi team 2025, "Kimi Linear"). Chunks: tensor/cpu/delta_chunk.h. With
// the sums L_i [F] of log a from the start of the chunk on,
//
//   S_i = Diag(a_i) S_{i-1} + k_i^T beta_i (v_i - k_i Diag(a_i) S_{i-1})
//
// and the products of rows are sum_f q_if k_jf exp(L_if - L_jf), j <= i. No exponent is above 0: bands
// of 16 rows take the exponential apart. For a row i of a band with the first row r, and a key j of an
// earlier band with the last row e,
//
//   exp(L_i - L_j) = exp(L_i - L_r) exp(L_r - L_e) exp(L_e - L_j),
//
// so that the products of different bands are plain ones; within a band each pair has its own
// exponentials.
//
// Backward: keys have two gradients, dk^r where they read the state, as queries do, and dk^w where they
// write. A log decay multiplies what later rows read of what earlier ones wrote:
//
//   dL_if = q_if dq_if + k_if dk^r_if - k_if dk^w_if,
//
// the gradient of the sum of all log decays of f up to position i of the sequence.
#pragma once

#include "tensor/cpu/delta_chunk.h"

namespace linea::cpu {

// y = exp(a - b), a <= b
template <typename T>
void exp_difference(const T* a, const T* b, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = exp_below(a[i] - b[i]);
}

// y = a b
template <typename T>
void multiply_into(const T* a, const T* b, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

// Given::sums is L [C,F], then exp(L_i - L_r) [C,F] of the first row r of i's band, then
// exp(L_e - L_i) [C,F] of its last row e.
template <typename T>
class ChannelDecays {
 public:
  ChannelDecays(const ChunkShape& shape, bool)
      : F_(shape.features), M_(shape.values), C_(shape.chunk) {}

  int64_t width() const { return F_; }
  // Three for `sums`, six for `spread`, with a band of rows and one more.
  int64_t scratch_size() const { return 9 * C_ * F_ + (kRows + 1) * F_; }

  const T* sums(int64_t rows, const T* log_decay, Arena<T>& arena) const {
    T* L = arena.take(3 * C_ * F_);
    for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f)
        L[i * F_ + f] = (i == 0 ? T(0) : L[(i - 1) * F_ + f]) + log_decay[i * F_ + f];
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t first = i / kRows * kRows, last = std::min(first + kRows, rows) - 1;
      exp_difference(L + i * F_, L + first * F_, L + (C_ + i) * F_, F_);
      exp_difference(L + last * F_, L + i * F_, L + (2 * C_ + i) * F_, F_);
    }
    return L;
  }

  // products null: not asked for
  void pairs(const Chunk& chunk, const Given<T>& in, T* scores, T* products, Arena<T> arena) const {
    const int64_t keys = chunk.keys;
    const T *q = in.q == nullptr ? nullptr : from_band(chunk.rows, in, in.q, arena),
            *k = products == nullptr ? nullptr : from_band(keys, in, in.k, arena);
    if (q == nullptr && k == nullptr) return;
    T *before = arena.take(C_ * F_), *factors = arena.take(C_ * F_);
    for (int64_t first = 0; first < chunk.rows; first += kRows) {
      const int64_t end = std::min(first + kRows, chunk.rows), seen = std::min(first, keys);
      keys_before(first, seen, in, factors, before, arena);
      const auto multiply_earlier = [&](const T* x, int64_t rows, T* y) {
        if (x != nullptr && rows > 0 && seen > 0)
          multiply(false, {rows, seen, F_}, plain(x + first * F_, F_), transposed(before, F_),
                   {y + first * keys, keys}, false, arena);
      };
      multiply_earlier(q, end - first, scores);
      multiply_earlier(k, std::min(end, keys) - first, products);
      for (int64_t i = first; i < (q == nullptr ? std::min(end, keys) : end); ++i)
        for (int64_t j = first; j < std::min(i + 1, keys); ++j)
          pair(in, i, j, q == nullptr ? nullptr : scores + i * keys + j,
               k == nullptr || i >= keys ? nullptr : products + i * keys + j);
    }
  }

  // x_i exp(L_i), k_i exp(L_C - L_i)
  const T* from_start(int64_t rows, const Given<T>& in, const T* x, Arena<T>& arena) const {
    T* y = arena.take(C_ * F_);
    std::copy_n(x, rows * F_, y);
    decay_from_start(rows, in, y, arena);
    return y;
  }
  const T* keys_to_end(const Chunk& chunk, const Given<T>& in, Arena<T>& arena) const {
    T* y = arena.take(C_ * F_);
    std::copy_n(in.k, chunk.keys * F_, y);
    decay_to_end(chunk, in, y, arena);
    return y;
  }
  void decay_state(const Chunk& chunk, const Given<T>& in, T* state) const {
    const T* L = in.sums + (chunk.rows - 1) * F_;
    for (int64_t f = 0; f < F_; ++f) scale_row(state + f * M_, M_, exp_below(L[f]));
  }

  void spread(const Chunk& chunk, const Given<T>& in, const ChunkGradients<T>& of,
              const DeltaRows<T>& d, Arena<T> arena) const {
    const int64_t rows = chunk.rows, keys = chunk.keys;
    T *reads = arena.take(C_ * F_), *writes = d.k;  // dk^r, dk^w
    const bool corrects = of.BG != nullptr && keys > 0;
    std::fill_n(reads, rows * F_, T(0));
    std::fill_n(writes, rows * F_, T(0));
    multiply_transposed(rows, F_, M_, {of.dy, M_}, of.state, d.q, false, arena);
    decay_from_start(rows, in, d.q, arena);
    if (corrects) {
      multiply_transposed(keys, F_, M_, {of.dU, M_}, of.state, reads, false, arena);
      decay_from_start(keys, in, reads, arena);
    }
    if (keys > 0) {
      multiply_transposed(keys, F_, M_, {of.X, M_}, of.dstate, writes, false, arena);
      decay_to_end(chunk, in, writes, arena);
      spread_pairs(chunk, in, of.P, corrects ? of.BG : nullptr, d.q, reads, writes, arena);
    }
    decay_state(chunk, in, of.dstate);
    Arena<T> scratch = arena;
    const T* q = from_start(rows, in, in.q, scratch);
    small_gemm(F_, M_, rows, transposed(q, F_), of.dy, M_, of.dstate, M_, true);
    if (corrects) {
      const T* k = from_start(keys, in, in.k, scratch);
      small_gemm(F_, M_, keys, transposed(k, F_), of.dU, M_, of.dstate, M_, true);
    }
    for (int64_t i = 0; i < rows * F_; ++i) d.sums[i] = in.q[i] * d.q[i];
    for (int64_t i = 0; i < keys * F_; ++i) {
      d.sums[i] += in.k[i] * (reads[i] - writes[i]);
      d.k[i] = reads[i] + writes[i];
    }
  }

 private:
  static constexpr int64_t kRows = 16;  // of a band

  const T* from_first(const Given<T>& in, int64_t i) const { return in.sums + (C_ + i) * F_; }
  const T* to_last(const Given<T>& in, int64_t i) const { return in.sums + (2 * C_ + i) * F_; }

  // x_i exp(L_i - L_r)
  const T* from_band(int64_t rows, const Given<T>& in, const T* x, Arena<T>& arena) const {
    T* y = arena.take(C_ * F_);
    multiply_into(x, from_first(in, 0), y, rows * F_);
    return y;
  }

  // x_i times exp(L_i) = exp(L_r) exp(L_i - L_r). Arena: F.
  void decay_from_start(int64_t rows, const Given<T>& in, T* x, Arena<T> arena) const {
    T* factor = arena.take(F_);
    for (int64_t i = 0; i < rows; ++i) {
      if (i % kRows == 0)
        for (int64_t f = 0; f < F_; ++f) factor[f] = exp_below(in.sums[i * F_ + f]);
      const T* by = from_first(in, i);
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f) x[i * F_ + f] *= factor[f] * by[f];
    }
  }
  // x_i times exp(L_C - L_i) = exp(L_C - L_e) exp(L_e - L_i), rows of keys. Arena: F.
  void decay_to_end(const Chunk& chunk, const Given<T>& in, T* x, Arena<T> arena) const {
    T* factor = arena.take(F_);
    for (int64_t i = 0; i < chunk.keys; ++i) {
      if (i % kRows == 0)
        exp_difference(in.sums + (chunk.rows - 1) * F_,
                       in.sums + (std::min(i + kRows, chunk.rows) - 1) * F_, factor, F_);
      const T* by = to_last(in, i);
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f) x[i * F_ + f] *= factor[f] * by[f];
    }
  }

  // exp(L_r - L_j) of the keys j < seen of the bands before row r, and k_j times that. Arena: F.
  void keys_before(int64_t r, int64_t seen, const Given<T>& in, T* factors, T* before,
                   Arena<T> arena) const {
    T* of_band = arena.take(F_);  // exp(L_r - L_e)
    for (int64_t j = 0; j < seen; ++j) {
      if (j % kRows == 0)
        exp_difference(in.sums + r * F_, in.sums + (j + kRows - 1) * F_, of_band, F_);
      multiply_into(of_band, to_last(in, j), factors + j * F_, F_);
    }
    multiply_into(in.k, factors, before, seen * F_);
  }

  // sum_f q_if k_jf exp(L_if - L_jf) and the same of k_i; null: not asked for.
  void pair(const Given<T>& in, int64_t i, int64_t j, T* score, T* product) const {
    const T *L_i = in.sums + i * F_, *L_j = in.sums + j * F_, *k_j = in.k + j * F_,
            *q_i = (score == nullptr ? in.k : in.q) + i * F_,
            *k_i = (product == nullptr ? in.q : in.k) + i * F_;
    T of_q = 0, of_k = 0;
#pragma omp simd reduction(+ : of_q, of_k)
    for (int64_t f = 0; f < F_; ++f) {
      const T key = k_j[f] * exp_below(L_i[f] - L_j[f]);
      of_q += q_i[f] * key;
      of_k += k_i[f] * key;
    }
    if (score != nullptr) *score = of_q;
    if (product != nullptr) *product = of_k;
  }

  // The gradients of queries, of keys that read and of keys that write through the pairs of rows: P
  // of q_i and k_j, BG of k_i and k_j, null without correction.
  void spread_pairs(const Chunk& chunk, const Given<T>& in, const T* P, const T* BG, T* dq,
                    T* reads, T* writes, Arena<T> arena) const {
    const int64_t keys = chunk.keys;
    const T *q = from_band(chunk.rows, in, in.q, arena),
            *k = BG == nullptr ? nullptr : from_band(keys, in, in.k, arena);
    T *before = arena.take(C_ * F_), *factors = arena.take(C_ * F_), *band = arena.take(kRows * F_),
      *earlier = arena.take(C_ * F_);
    for (int64_t first = 0; first < chunk.rows; first += kRows) {
      const int64_t end = std::min(first + kRows, chunk.rows), seen = std::min(first, keys);
      keys_before(first, seen, in, factors, before, arena);
      bool add = false;
      const auto of_earlier = [&](const T* pairs, const T* x, int64_t rows, T* dx) {
        if (pairs == nullptr || rows <= 0 || seen == 0) return;
        const T* some = pairs + first * keys;
        small_gemm(rows, F_, seen, plain(some, keys), before, F_, band, F_, false);
        add_product(band, from_first(in, first), dx + first * F_, rows * F_);
        small_gemm(seen, F_, rows, transposed(some, keys), x + first * F_, F_, earlier, F_, add);
        add = true;
      };
      of_earlier(P, q, end - first, dq);
      of_earlier(BG, k, std::min(end, keys) - first, reads);
      add_product(earlier, factors, writes, seen * F_);
      for (int64_t i = first; i < end; ++i)
        for (int64_t j = first; j < std::min(i + 1, keys); ++j)
          spread_pair(in, i, j, P[i * keys + j],
                      BG == nullptr || i >= keys ? T(0) : BG[i * keys + j], dq, reads, writes);
    }
  }

  void spread_pair(const Given<T>& in, int64_t i, int64_t j, T p, T g, T* dq, T* reads,
                   T* writes) const {
    const T *L_i = in.sums + i * F_, *L_j = in.sums + j * F_, *q_i = in.q + i * F_,
            *k_i = g == T(0) ? q_i : in.k + i * F_, *k_j = in.k + j * F_;  // not of padding
    T *dq_i = dq + i * F_, *reads_i = reads + i * F_, *writes_j = writes + j * F_;
#pragma omp simd
    for (int64_t f = 0; f < F_; ++f) {
      const T decay = exp_below(L_i[f] - L_j[f]), key = k_j[f] * decay;
      dq_i[f] += p * key;
      reads_i[f] += g * key;
      writes_j[f] += (p * q_i[f] + g * k_i[f]) * decay;
    }
  }

  int64_t F_, M_, C_;
};

}  // namespace linea::cpu

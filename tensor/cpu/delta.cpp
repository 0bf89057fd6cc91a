// The delta rule, one segment at a time (Schlag 2021, section 4.2): chunks as matrix products by
// the WY/UT representation (Yang 2024, "Parallelizing linear transformers with the delta rule over
// sequence length"). Row vectors throughout; one position, with the state S [F,M] of one (batch,
// head):
//
//   S_i = S_{i-1} + k_i^T beta_i (v_i - k_i S_{i-1})     y_i = q_i S_i
//
// A chunk of C positions as matrices, S the state before it, B = diag(beta), lower() including the
// diagonal; row i of X is the update of position i:
//
//   W = K K^T    L = I + strictly_lower(B W)    U = V - K S    L X = B U
//   Y = Q S + lower(Q K^T) X                    S' = S + K^T X
//
// Backward, from dY and dS', P = lower(dY X^T), G = -strictly_lower(dE X^T) the gradient of L:
//
//   dX = lower(Q K^T)^T dY + K dS'    dE = L^-T dX
//   dQ = dY S^T + P K                 dV = B dE       dbeta_i = dE_i . U_i + sum_j G_ij W_ij
//   dK = P^T Q + X dS'^T + (B G + (B G)^T) K - dV S^T               dS = dS' + Q^T dY - K^T dV
//
// Rows of K, V and B are the valid keys only: padding is never read.
//
// Where the state decays, S_i = a_i S_{i-1} + k_i^T beta_i (v_i - a_i k_i S_{i-1}), with the sums L_i
// of log a from the start of the chunk on (Yang 2025, "Gated delta networks", section 3.3), every
// product of positions i and j is multiplied by exp(L_i - L_j), of i and S by exp(L_i), of i and dS'
// by exp(L_C - L_i), and S in S' and dS' in dS by exp(L_C). No exponent is above 0. What y depends on
// is a product of q_i, exp(L_i) and of factors (beta_j v_j or beta_j k_j exp(L_j)) k_j exp(-L_j), so
//
//   dL_i = q_i.dq_i - k_i.dk_i + 2 (beta_i dbeta_i - v_i.dv_i),
//
// the gradient of the sum of all log decays up to position i of the sequence.
#include "tensor/cpu/blas.h"
#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

// The inputs of one chunk; L null: no decay.
template <typename T>
struct Given {
  const T *q, *k, *v, *beta, *L;
};

// Intermediate results of one chunk: from its keys and the state before it.
template <typename T>
struct Written {
  T *products, *lower;  // W, L [keys,keys]
  T *missed, *rows;     // U, X [keys,M]
};

template <typename T>
class Delta {
 public:
  Delta(const ChunkShape& shape, bool decays)
      : F_(shape.features), M_(shape.values), C_(shape.chunk), decays_(decays) {}

  int64_t written_size() const { return 2 * C_ * C_ + 2 * C_ * M_; }
  Written<T> take_written(Arena<T>& arena) const {
    return {arena.take(C_ * C_), arena.take(C_ * C_), arena.take(C_ * M_), arena.take(C_ * M_)};
  }

  // Elements that `sum_decays`, `write`, `accumulate`, `read` and `backward` take from their arena.
  int64_t scratch_size() const {
    return C_ * C_ + C_ * M_ + std::max(F_ * M_, C_ * std::max(F_, M_)) +
           (decays_ ? C_ * (1 + 2 * F_ + M_) : 0);
  }

  // L of a chunk.
  const T* sum_decays(int64_t rows, const T* log_decay, Arena<T>& arena) const {
    if (!decays_) return nullptr;
    T *L = arena.take(C_), sum = 0;
    for (int64_t i = 0; i < rows; ++i) L[i] = sum += log_decay[i];
    return L;
  }

  void write(int64_t keys, const Given<T>& in, const T* state, const Written<T>& out,
             Arena<T> arena) const {
    if (keys == 0) return;
    band_products(Chunk{0, keys, keys}, F_, {in.k, F_}, {in.k, F_}, out.products, arena);
    decay_pairs({0, keys, keys}, in.L, out.products);
    for (int64_t i = 0; i < keys; ++i)
      for (int64_t j = 0; j < i; ++j)
        out.lower[i * keys + j] = in.beta[i] * out.products[i * keys + j];
    const T* k = from_start(keys, F_, in, in.k, arena);
    small_gemm(keys, M_, F_, plain(k, F_), state, M_, out.missed, M_, false);
    for (int64_t i = 0; i < keys * M_; ++i) out.missed[i] = in.v[i] - out.missed[i];
    scale_rows(keys, in.beta, out.missed, out.rows);
    blas_solve(false, keys, M_, out.lower, out.rows);
  }

  void accumulate(const Chunk& chunk, const Given<T>& in, const Written<T>& written, T* state,
                  Arena<T> arena) const {
    const T* k = to_end(chunk, F_, in, in.k, arena);
    decay_state(chunk, in, state);
    small_gemm(F_, M_, chunk.keys, transposed(k, F_), written.rows, M_, state, M_, true);
  }

  void read(const Chunk& chunk, const Given<T>& in, const T* state, const Written<T>& written, T* y,
            Arena<T> arena) const {
    const T* q = from_start(chunk.rows, F_, in, in.q, arena);
    small_gemm(chunk.rows, M_, F_, plain(q, F_), state, M_, y, M_, false);
    if (chunk.keys == 0) return;
    T* scores = arena.take(C_ * C_);
    band_products(chunk, F_, {in.q, F_}, {in.k, F_}, scores, arena);
    decay_pairs(chunk, in.L, scores);
    // Rows of X grow with earlier updates; an infinite one must not be multiplied even by 0. So
    // full products cover only keys before a band, and within the band only the visible ones.
    each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
      const T* band = scores + first * chunk.keys;
      small_gemm(rows, M_, std::min(first, seen), plain(band, chunk.keys), written.rows, M_,
                 y + first * M_, M_, true);
      for (int64_t i = first; i < first + rows; ++i)
        for (int64_t j = first; j < std::min(i + 1, seen); ++j)
          add_row(written.rows + j * M_, y + i * M_, M_, scores[i * chunk.keys + j]);
    });
  }

  // dstate: dS' on entry, dS on return.
  void backward(const Chunk& chunk, const Given<T>& in, const T* state, const Written<T>& written,
                const T* dy, T* dstate, T* dq, T* dk, T* dv, T* dbeta, T* dL,
                Arena<T> arena) const {
    const int64_t rows = chunk.rows, keys = chunk.keys;
    T *scores = arena.take(C_ * C_), *dE = arena.take(C_ * M_);
    multiply_transposed(rows, F_, M_, {dy, M_}, state, dq, false, arena);
    if (decays_)
      for (int64_t i = 0; i < rows; ++i) scale_row(dq + i * F_, F_, exp_below(in.L[i]));
    const T* q_from_start = from_start(rows, F_, in, in.q, arena);
    std::fill_n(dk, rows * F_, T(0));
    std::fill_n(dE, keys * M_, T(0));
    if (keys > 0) {
      band_products(chunk, F_, {in.q, F_}, {in.k, F_}, scores, arena);
      decay_pairs(chunk, in.L, scores);
      hide_unseen(chunk, scores);
      add_future(chunk, M_, scores, {dy, M_}, dE, M_);
      const T* k_to_end = to_end(chunk, F_, in, in.k, arena);
      small_gemm(keys, M_, F_, plain(k_to_end, F_), dstate, M_, dE, M_, true);
      blas_solve(true, keys, M_, written.lower, dE);

      T* P = scores;
      band_products(chunk, M_, {dy, M_}, {written.rows, M_}, P, arena);
      decay_pairs(chunk, in.L, P);
      hide_unseen(chunk, P);
      add_past(chunk, F_, P, {in.k, F_}, dq, F_);
      add_future(chunk, F_, P, {in.q, F_}, dk, F_);
      const T* x_to_end = to_end(chunk, M_, in, written.rows, arena);
      multiply_transposed(keys, F_, M_, {x_to_end, M_}, dstate, dk, true, arena);

      const Chunk square{chunk.first, keys, keys};
      T* G = scores;  // B G, initially without the minus sign
      band_products(square, M_, {dE, M_}, {written.rows, M_}, G, arena);
      hide_unseen(square, G);
      for (int64_t i = 0; i < keys; ++i) {
        T* row = G + i * keys;
        dbeta[i] = dot(dE + i * M_, written.missed + i * M_, M_) -
                   dot(row, written.products + i * keys, i);
        for (int64_t j = 0; j < i; ++j) row[j] *= -in.beta[i];
        row[i] = 0;
      }
      decay_pairs(square, in.L, G);
      add_past(square, F_, G, {in.k, F_}, dk, F_);
      add_future(square, F_, G, {in.k, F_}, dk, F_);
      scale_rows(keys, in.beta, dE, dv);
      for (int64_t i = 0; i < keys * M_; ++i) dE[i] = -dv[i];
      if (decays_)
        for (int64_t i = 0; i < keys; ++i) scale_row(dE + i * M_, M_, exp_below(in.L[i]));
      multiply_transposed(keys, F_, M_, {dE, M_}, state, dk, true, arena);
    }
    std::fill(dv + keys * M_, dv + rows * M_, T(0));
    std::fill(dbeta + keys, dbeta + rows, T(0));
    decay_state(chunk, in, dstate);
    small_gemm(F_, M_, rows, transposed(q_from_start, F_), dy, M_, dstate, M_, true);
    small_gemm(F_, M_, keys, transposed(in.k, F_), dE, M_, dstate, M_, true);
    for (int64_t i = 0; decays_ && i < rows; ++i) {
      dL[i] = dot(in.q + i * F_, dq + i * F_, F_);
      if (i < keys)
        dL[i] += 2 * (in.beta[i] * dbeta[i] - dot(in.v + i * M_, dv + i * M_, M_)) -
                 dot(in.k + i * F_, dk + i * F_, F_);
    }
  }

 private:
  // x_ij times exp(L_i - L_j), j <= i
  void decay_pairs(const Chunk& chunk, const T* L, T* x) const {
    if (L == nullptr) return;
    for (int64_t i = 0; i < chunk.rows; ++i)
#pragma omp simd
      for (int64_t j = 0; j < std::min(i + 1, chunk.keys); ++j)
        x[i * chunk.keys + j] *= exp_below(L[i] - L[j]);
  }

  // Rows x_i of `width` times exp(L_i), or times exp(L_C - L_i); x itself without decays.
  const T* from_start(int64_t rows, int64_t width, const Given<T>& in, const T* x,
                      Arena<T>& arena) const {
    return scaled(rows, width, in, x, arena, [&](int64_t i) { return in.L[i]; });
  }
  const T* to_end(const Chunk& chunk, int64_t width, const Given<T>& in, const T* x,
                  Arena<T>& arena) const {
    return scaled(chunk.keys, width, in, x, arena,
                  [&](int64_t i) { return in.L[chunk.rows - 1] - in.L[i]; });
  }
  template <typename Log>
  const T* scaled(int64_t rows, int64_t width, const Given<T>& in, const T* x, Arena<T>& arena,
                  const Log& log) const {
    if (in.L == nullptr) return x;
    T* y = arena.take(C_ * width);
    for (int64_t i = 0; i < rows; ++i) {
      const T by = exp_below(log(i));
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) y[i * width + c] = by * x[i * width + c];
    }
    return y;
  }
  void decay_state(const Chunk& chunk, const Given<T>& in, T* state) const {
    if (in.L != nullptr) scale_row(state, F_ * M_, exp_below(in.L[chunk.rows - 1]));
  }

  void scale_rows(int64_t rows, const T* factor, const T* x, T* y) const {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t m = 0; m < M_; ++m) y[i * M_ + m] = factor[i] * x[i * M_ + m];
  }

  int64_t F_, M_, C_;
  bool decays_;
};

}  // namespace

// Without q the segment only updates the state.
template <typename T>
void delta_forward(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                   Strided<const T> v, const DeltaGates<const T>& gates, T* state, Strided<T> y) {
  const int64_t F = shape.features, M = shape.values;
  if (F == 0 || M == 0) return;
  const bool decays = gates.log_decay.data != nullptr;
  const Delta<T> delta(shape, decays);
  const int64_t each = delta.written_size() + delta.scratch_size();
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, kGrain, [&](int64_t bh, int thread) {
    Arena<T> arena(workspace.data() + thread * each);
    const Written<T> written = delta.take_written(arena);
    T* state_of_bh = state + bh * F * M;
    for (int64_t index = 0; index < chunk_count(shape); ++index) {
      const Chunk chunk = chunk_at(shape, bh, index);
      const int64_t row = bh * shape.length + chunk.first;
      Arena<T> scratch = arena;
      const Given<T> in{
          q == nullptr ? nullptr : q + row * F, k + row * F, v.at(bh) + chunk.first * M,
          gates.beta.at(bh) + chunk.first,
          delta.sum_decays(chunk.rows, decays ? gates.log_decay.at(bh) + chunk.first : nullptr,
                           scratch)};
      delta.write(chunk.keys, in, state_of_bh, written, scratch);
      if (q != nullptr)
        delta.read(chunk, in, state_of_bh, written, y.at(bh) + chunk.first * M, scratch);
      delta.accumulate(chunk, in, written, state_of_bh, scratch);
    }
  });
}

// Recomputes the segment's states, one before each chunk, then processes the chunks in reverse.
template <typename T>
void delta_backward(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                    Strided<const T> v, const DeltaGates<const T>& gates, Strided<const T> dy,
                    const T* state, T* dstate, T* dq, T* dk, Strided<T> dv,
                    const DeltaGates<T>& dgates) {
  const int64_t F = shape.features, M = shape.values, chunks = chunk_count(shape);
  if (F == 0 || M == 0) return;
  const bool decays = gates.log_decay.data != nullptr;
  const Delta<T> delta(shape, decays);
  const int64_t saved = F * M + delta.written_size();  // of each chunk
  const int64_t each = chunks * saved + delta.scratch_size();
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, kGrain, [&](int64_t bh, int thread) {
    T* chunk_memory = workspace.data() + thread * each;
    const Arena<T> free(chunk_memory + chunks * saved);
    const auto visit = [&](int64_t index, const auto& body) {
      const Chunk chunk = chunk_at(shape, bh, index);
      const int64_t row = bh * shape.length + chunk.first;
      Arena<T> arena(chunk_memory + index * saved), scratch = free;
      T* before = arena.take(F * M);
      const T* L = delta.sum_decays(
          chunk.rows, decays ? gates.log_decay.at(bh) + chunk.first : nullptr, scratch);
      const Given<T> in{q + row * F, k + row * F, v.at(bh) + chunk.first * M,
                        gates.beta.at(bh) + chunk.first, L};
      body(chunk, row, in, before, delta.take_written(arena), scratch);
    };
    std::copy_n(state + bh * F * M, F * M, chunk_memory);
    for (int64_t index = 0; index < chunks; ++index)
      visit(index, [&](const Chunk& chunk, int64_t, const Given<T>& in, T* before,
                       const Written<T>& written, const Arena<T>& scratch) {
        delta.write(chunk.keys, in, before, written, scratch);
        if (index + 1 == chunks) return;
        std::copy_n(before, F * M, before + saved);
        delta.accumulate(chunk, in, written, before + saved, scratch);
      });
    for (int64_t index = chunks - 1; index >= 0; --index)
      visit(index, [&](const Chunk& chunk, int64_t row, const Given<T>& in, T* before,
                       const Written<T>& written, const Arena<T>& scratch) {
        delta.backward(chunk, in, before, written, dy.at(bh) + chunk.first * M, dstate + bh * F * M,
                       dq + row * F, dk + row * F, dv.at(bh) + chunk.first * M,
                       dgates.beta.at(bh) + chunk.first,
                       decays ? dgates.log_decay.at(bh) + chunk.first : nullptr, scratch);
      });
  });
}

// S = a S, S += k^T beta (v - k S), y = q S; a = 1 without decays.
template <typename T>
void delta_step(Context& ctx, const T* q, const T* k, const T* v, const T* beta, const T* log_decay,
                T* state, T* y, int64_t BH, int64_t F, int64_t M) {
  const Workspace<T> workspace(ctx, BH * M);
  parallel_rows(ctx, BH, 8 * F * M, [&](int64_t bh) {
    T *written = workspace.data() + bh * M, *out = y + bh * M, *S = state + bh * F * M;
    if (log_decay != nullptr) scale_row(S, F * M, exp_below(log_decay[bh]));
    std::fill_n(written, M, T(0));
    for (int64_t f = 0; f < F; ++f) add_row(S + f * M, written, M, k[bh * F + f]);
    for (int64_t m = 0; m < M; ++m) written[m] = beta[bh] * (v[bh * M + m] - written[m]);
    std::fill_n(out, M, T(0));
    for (int64_t f = 0; f < F; ++f) {
      add_row(written, S + f * M, M, k[bh * F + f]);
      add_row(S + f * M, out, M, q[bh * F + f]);
    }
  });
}

template <typename T>
void solve_unit_lower(Context& ctx, const T* l, const T* e, T* x, bool transpose, int64_t BH,
                      int64_t N, int64_t M) {
  std::copy_n(e, BH * N * M, x);
  if (N == 0 || M == 0) return;
  const auto one = [&](int64_t bh, int) {
    blas_solve(transpose, N, M, l + bh * N * N, x + bh * N * M);
  };
  parallel_items(ctx, BH, kGrain, one);
}

LINEA_KERNEL_TABLE(DeltaKernels, .delta_forward = delta_forward<T>,
                   .delta_backward = delta_backward<T>)

LINEA_KERNEL_TABLE(DeltaStepKernels, .delta_step = delta_step<T>,
                   .solve_unit_lower = solve_unit_lower<T>)

}  // namespace linea::cpu

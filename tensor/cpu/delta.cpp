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
#include "tensor/cpu/blas.h"
#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

// The inputs of one chunk.
template <typename T>
struct Given {
  const T *q, *k, *v, *beta;
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
  explicit Delta(const ChunkShape& shape) : F_(shape.features), M_(shape.values), C_(shape.chunk) {}

  int64_t written_size() const { return 2 * C_ * C_ + 2 * C_ * M_; }
  Written<T> take_written(Arena<T>& arena) const {
    return {arena.take(C_ * C_), arena.take(C_ * C_), arena.take(C_ * M_), arena.take(C_ * M_)};
  }

  // Elements that `write`, `read` and `backward` take from their arena.
  int64_t scratch_size() const {
    return C_ * C_ + C_ * M_ + std::max(F_ * M_, C_ * std::max(F_, M_));
  }

  void write(int64_t keys, const Given<T>& in, const T* state, const Written<T>& out,
             Arena<T> arena) const {
    if (keys == 0) return;
    band_products({0, keys, keys}, F_, {in.k, F_}, {in.k, F_}, out.products, arena);
    for (int64_t i = 0; i < keys; ++i)
      for (int64_t j = 0; j < i; ++j)
        out.lower[i * keys + j] = in.beta[i] * out.products[i * keys + j];
    small_gemm(keys, M_, F_, plain(in.k, F_), state, M_, out.missed, M_, false);
    for (int64_t i = 0; i < keys * M_; ++i) out.missed[i] = in.v[i] - out.missed[i];
    scale_rows(keys, in.beta, out.missed, out.rows);
    blas_solve(false, keys, M_, out.lower, out.rows);
  }

  void accumulate(int64_t keys, const T* k, const Written<T>& written, T* state) const {
    small_gemm(F_, M_, keys, transposed(k, F_), written.rows, M_, state, M_, true);
  }

  void read(const Chunk& chunk, const Given<T>& in, const T* state, const Written<T>& written, T* y,
            Arena<T> arena) const {
    small_gemm(chunk.rows, M_, F_, plain(in.q, F_), state, M_, y, M_, false);
    if (chunk.keys == 0) return;
    T* scores = arena.take(C_ * C_);
    band_products(chunk, F_, {in.q, F_}, {in.k, F_}, scores, arena);
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
                const T* dy, T* dstate, T* dq, T* dk, T* dv, T* dbeta, Arena<T> arena) const {
    const int64_t rows = chunk.rows, keys = chunk.keys;
    T *scores = arena.take(C_ * C_), *dE = arena.take(C_ * M_);
    multiply_transposed(rows, F_, M_, {dy, M_}, state, dq, false, arena);
    std::fill_n(dk, rows * F_, T(0));
    std::fill_n(dE, keys * M_, T(0));
    if (keys > 0) {
      band_products(chunk, F_, {in.q, F_}, {in.k, F_}, scores, arena);
      hide_unseen(chunk, scores);
      add_future(chunk, M_, scores, {dy, M_}, dE, M_);
      small_gemm(keys, M_, F_, plain(in.k, F_), dstate, M_, dE, M_, true);
      blas_solve(true, keys, M_, written.lower, dE);

      T* P = scores;
      band_products(chunk, M_, {dy, M_}, {written.rows, M_}, P, arena);
      hide_unseen(chunk, P);
      add_past(chunk, F_, P, {in.k, F_}, dq, F_);
      add_future(chunk, F_, P, {in.q, F_}, dk, F_);
      multiply_transposed(keys, F_, M_, {written.rows, M_}, dstate, dk, true, arena);

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
      add_past(square, F_, G, {in.k, F_}, dk, F_);
      add_future(square, F_, G, {in.k, F_}, dk, F_);
      scale_rows(keys, in.beta, dE, dv);
      for (int64_t i = 0; i < keys * M_; ++i) dE[i] = -dv[i];
      multiply_transposed(keys, F_, M_, {dE, M_}, state, dk, true, arena);
    }
    std::fill(dv + keys * M_, dv + rows * M_, T(0));
    std::fill(dbeta + keys, dbeta + rows, T(0));
    small_gemm(F_, M_, rows, transposed(in.q, F_), dy, M_, dstate, M_, true);
    small_gemm(F_, M_, keys, transposed(in.k, F_), dE, M_, dstate, M_, true);
  }

 private:
  void scale_rows(int64_t rows, const T* factor, const T* x, T* y) const {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t m = 0; m < M_; ++m) y[i * M_ + m] = factor[i] * x[i * M_ + m];
  }

  int64_t F_, M_, C_;
};

}  // namespace

// Without q the segment only updates the state.
template <typename T>
void delta_forward(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                   Strided<const T> v, Strided<const T> beta, T* state, Strided<T> y) {
  const int64_t F = shape.features, M = shape.values;
  if (F == 0 || M == 0) return;
  const Delta<T> delta(shape);
  const int64_t each = delta.written_size() + delta.scratch_size();
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, kGrain, [&](int64_t bh, int thread) {
    Arena<T> arena(workspace.data() + thread * each);
    const Written<T> written = delta.take_written(arena);
    T* state_of_bh = state + bh * F * M;
    for (int64_t index = 0; index < chunk_count(shape); ++index) {
      const Chunk chunk = chunk_at(shape, bh, index);
      const int64_t row = bh * shape.length + chunk.first;
      const Given<T> in{q == nullptr ? nullptr : q + row * F, k + row * F,
                        v.at(bh) + chunk.first * M, beta.at(bh) + chunk.first};
      delta.write(chunk.keys, in, state_of_bh, written, arena);
      if (q != nullptr)
        delta.read(chunk, in, state_of_bh, written, y.at(bh) + chunk.first * M, arena);
      delta.accumulate(chunk.keys, in.k, written, state_of_bh);
    }
  });
}

// Recomputes the segment's states, one before each chunk, then processes the chunks in reverse.
template <typename T>
void delta_backward(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                    Strided<const T> v, Strided<const T> beta, Strided<const T> dy, const T* state,
                    T* dstate, T* dq, T* dk, Strided<T> dv, Strided<T> dbeta) {
  const int64_t F = shape.features, M = shape.values, chunks = chunk_count(shape);
  if (F == 0 || M == 0) return;
  const Delta<T> delta(shape);
  const int64_t saved = F * M + delta.written_size();  // of each chunk
  const int64_t each = chunks * saved + delta.scratch_size();
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, kGrain, [&](int64_t bh, int thread) {
    T* chunk_memory = workspace.data() + thread * each;
    const Arena<T> scratch(chunk_memory + chunks * saved);
    const auto visit = [&](int64_t index, const auto& body) {
      const Chunk chunk = chunk_at(shape, bh, index);
      const int64_t row = bh * shape.length + chunk.first;
      Arena<T> arena(chunk_memory + index * saved);
      T* before = arena.take(F * M);
      body(
          chunk, row,
          Given<T>{q + row * F, k + row * F, v.at(bh) + chunk.first * M, beta.at(bh) + chunk.first},
          before, delta.take_written(arena));
    };
    std::copy_n(state + bh * F * M, F * M, chunk_memory);
    for (int64_t index = 0; index < chunks; ++index)
      visit(index, [&](const Chunk& chunk, int64_t, const Given<T>& in, T* before,
                       const Written<T>& written) {
        delta.write(chunk.keys, in, before, written, scratch);
        if (index + 1 == chunks) return;
        std::copy_n(before, F * M, before + saved);
        delta.accumulate(chunk.keys, in.k, written, before + saved);
      });
    for (int64_t index = chunks - 1; index >= 0; --index)
      visit(index, [&](const Chunk& chunk, int64_t row, const Given<T>& in, T* before,
                       const Written<T>& written) {
        delta.backward(chunk, in, before, written, dy.at(bh) + chunk.first * M, dstate + bh * F * M,
                       dq + row * F, dk + row * F, dv.at(bh) + chunk.first * M,
                       dbeta.at(bh) + chunk.first, scratch);
      });
  });
}

// S += k^T beta (v - k S), y = q S.
template <typename T>
void delta_step(Context& ctx, const T* q, const T* k, const T* v, const T* beta, T* state, T* y,
                int64_t BH, int64_t F, int64_t M) {
  const Workspace<T> workspace(ctx, BH * M);
  parallel_rows(ctx, BH, 8 * F * M, [&](int64_t bh) {
    T *written = workspace.data() + bh * M, *out = y + bh * M, *S = state + bh * F * M;
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

template <typename T>
constexpr DeltaKernels<T> kDeltaKernels = {.delta_forward = delta_forward<T>,
                                           .delta_backward = delta_backward<T>};
LINEA_KERNELS(DeltaKernels)

template <typename T>
constexpr DeltaStepKernels<T> kDeltaStepKernels = {.delta_step = delta_step<T>,
                                                   .solve_unit_lower = solve_unit_lower<T>};
LINEA_KERNELS(DeltaStepKernels)

}  // namespace linea::cpu

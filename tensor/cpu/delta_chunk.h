// One chunk of a rule without denominator, by the WY/UT representation (Yang 2024, "Parallelizing
// linear transformers with the delta rule over sequence length"), and the sweeps over the chunks of a
// segment. Row vectors throughout; one position, with the state S [F,M] of one (batch, head):
//
//   S_i = S_{i-1} + k_i^T beta_i (v_i - k_i S_{i-1})     y_i = q_i S_i
//
// A chunk of C positions as matrices, S the state before it, B = diag(beta), lower() including the
// diagonal; row i of X is the update of position i:
//
//   W = K K^T    L = I + strictly_lower(B W)    U = V - K S    L X = B U
//   Y = Q S + lower(Q K^T) X                    S' = S + K^T X
//
// Without correction (ChunkShape::corrects) L is the identity and U is V: X = B V.
//
// Backward, from dY and dS', P = lower(dY X^T), G = -strictly_lower(dE X^T) the gradient of L:
//
//   dX = lower(Q K^T)^T dY + K dS'    dE = L^-T dX
//   dQ = dY S^T + P K                 dV = B dE       dbeta_i = dE_i . U_i + sum_j G_ij W_ij
//   dK = P^T Q + X dS'^T + (B G + (B G)^T) K - dV S^T               dS = dS' + Q^T dY - K^T dV
//
// Rows of K, V and B are the valid keys only: padding is never read.
//
// How the state decays is a class: HeadDecays (delta.cpp), ChannelDecays (channel_decay.h). It gives
// the products Q K^T and K K^T with their decays, rows from the start of the chunk on and keys to its end,
// and spreads P and B G to the gradients of rows and state.
#pragma once

#include "tensor/cpu/blas.h"
#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

// Rows of one chunk. The inputs; sums: of its log decays, as the class of the decays keeps them, null
// without; beta null: 1; q null: nothing is read. Or their gradients; beta null: not asked for.
template <typename T>
struct DeltaRows {
  T *q, *k, *v, *beta, *sums;
};
template <typename T>
using Given = DeltaRows<const T>;

// Intermediate results of one chunk: from its rows and the state before it.
template <typename T>
struct Written {
  T *scores, *rows;              // lower(Q K^T) [rows,keys], X [keys,M]
  T *products, *lower, *missed;  // W, L [keys,keys], U [keys,M], where rows are corrected
};

// What a chunk's gradients of queries, keys, decays and state follow from: P [rows,keys], B G
// [keys,keys] or null without correction, X, dY, -B dE [keys,M], the state before the chunk, and dS',
// which becomes dS.
template <typename T>
struct ChunkGradients {
  T *P, *BG;
  const T *X, *dy, *state;
  T *dU, *dstate;
};

template <typename T, template <typename> typename Decays>
class DeltaChunks {
 public:
  DeltaChunks(const ChunkShape& shape, const DeltaInput<T>& inputs)
      : shape_(shape),
        in_(inputs),
        F_(shape.features),
        M_(shape.values),
        C_(shape.chunk),
        decays_(shape, inputs.log_decay.data != nullptr) {}

  void forward(Context& ctx, T* state, const Strided<T>& y) const {
    if (F_ == 0 || M_ == 0) return;
    const int64_t each = written_size() + scratch_size();
    parallel_arenas<T>(ctx, shape_.batch_heads, kGrain, each, [&](int64_t bh, Arena<T> arena) {
      const Written<T> written = take_written(arena);
      T* state_of_bh = state + bh * F_ * M_;
      for (int64_t index = 0; index < chunk_count(shape_); ++index) {
        const Chunk chunk = chunk_at(shape_, bh, index);
        Arena<T> scratch = arena;
        const Given<T> in = given(bh, chunk, scratch);
        write(chunk, in, state_of_bh, written, scratch);
        if (in.q != nullptr)
          read(chunk, in, state_of_bh, written, y.at(bh, chunk.first * M_), scratch);
        accumulate(chunk, in, written, state_of_bh, scratch);
      }
    });
  }

  // Recomputes the segment's states, one before each chunk, then processes the chunks in reverse.
  void backward(Context& ctx, const Strided<const T>& dy, const T* state, T* dstate,
                const DeltaGradients<T>& d) const {
    if (F_ == 0 || M_ == 0) return;
    const int64_t count = chunk_count(shape_), saved = F_ * M_ + written_size();  // of each chunk
    const int64_t each = count * saved + scratch_size();
    parallel_arenas<T>(ctx, shape_.batch_heads, kGrain, each, [&](int64_t bh, Arena<T> all) {
      T* chunk_memory = all.take(each);
      const auto visit = [&](int64_t index, const auto& body) {
        const Chunk chunk = chunk_at(shape_, bh, index);
        Arena<T> arena(chunk_memory + index * saved), scratch(chunk_memory + count * saved);
        T* before = arena.take(F_ * M_);
        const Given<T> in = given(bh, chunk, scratch);
        body(chunk, in, before, take_written(arena), scratch);
      };
      std::copy_n(state + bh * F_ * M_, F_ * M_, chunk_memory);
      for (int64_t index = 0; index < count; ++index)
        visit(index, [&](const Chunk& chunk, const Given<T>& in, T* before,
                         const Written<T>& written, const Arena<T>& scratch) {
          write(chunk, in, before, written, scratch);
          if (index + 1 == count) return;
          std::copy_n(before, F_ * M_, before + saved);
          accumulate(chunk, in, written, before + saved, scratch);
        });
      for (int64_t index = count - 1; index >= 0; --index)
        visit(index, [&](const Chunk& chunk, const Given<T>& in, T* before,
                         const Written<T>& written, const Arena<T>& scratch) {
          go_back(chunk, in, before, written, dy.at(bh, chunk.first * M_), dstate + bh * F_ * M_,
                  gradients_of(d, bh, chunk), scratch);
        });
    });
  }

 private:
  int64_t written_size() const {
    return C_ * C_ + C_ * M_ + (shape_.corrects ? 2 * C_ * C_ + C_ * M_ : 0);
  }
  Written<T> take_written(Arena<T>& arena) const {
    Written<T> written{arena.take(C_ * C_), arena.take(C_ * M_), nullptr, nullptr, nullptr};
    if (!shape_.corrects) return written;
    written.products = arena.take(C_ * C_);
    written.lower = arena.take(C_ * C_);
    written.missed = arena.take(C_ * M_);
    return written;
  }
  // Elements that `given`, `write`, `accumulate`, `read` and `go_back` take from their arena.
  int64_t scratch_size() const {
    return 2 * C_ * C_ + C_ * M_ + std::max(F_ * M_, C_ * std::max(F_, M_)) +
           decays_.scratch_size();
  }

  // The inputs of a chunk of bh. Arena: the sums of its decays.
  Given<T> given(int64_t bh, const Chunk& chunk, Arena<T>& arena) const {
    const int64_t row = bh * shape_.length + chunk.first;
    const T* log_decay = in_.log_decay.at(bh, chunk.first * decays_.width());
    return {in_.q == nullptr ? nullptr : in_.q + row * F_, in_.k + row * F_,
            in_.v.at(bh, chunk.first * M_), in_.beta.at(bh, chunk.first),
            decays_.sums(chunk.rows, log_decay, arena)};
  }
  DeltaRows<T> gradients_of(const DeltaGradients<T>& d, int64_t bh, const Chunk& chunk) const {
    const int64_t row = bh * shape_.length + chunk.first;
    return {d.q + row * F_, d.k + row * F_, d.v.at(bh, chunk.first * M_),
            d.beta.at(bh, chunk.first), d.log_decay.at(bh, chunk.first * decays_.width())};
  }

  void write(const Chunk& chunk, const Given<T>& in, const T* state, const Written<T>& out,
             Arena<T> arena) const {
    const int64_t keys = chunk.keys;
    if (keys == 0) return;
    decays_.pairs(chunk, in, out.scores, out.products, arena);
    if (!shape_.corrects) return scale_rows(keys, in.beta, in.v, out.rows);
    for (int64_t i = 0; i < keys; ++i)
      for (int64_t j = 0; j < i; ++j)
        out.lower[i * keys + j] = in.beta[i] * out.products[i * keys + j];
    const T* k = decays_.from_start(keys, in, in.k, arena);
    small_gemm(keys, M_, F_, plain(k, F_), state, M_, out.missed, M_, false);
    for (int64_t i = 0; i < keys * M_; ++i) out.missed[i] = in.v[i] - out.missed[i];
    scale_rows(keys, in.beta, out.missed, out.rows);
    blas_solve(false, keys, M_, out.lower, out.rows);
  }

  void accumulate(const Chunk& chunk, const Given<T>& in, const Written<T>& written, T* state,
                  Arena<T> arena) const {
    const T* k = decays_.keys_to_end(chunk, in, arena);
    decays_.decay_state(chunk, in, state);
    small_gemm(F_, M_, chunk.keys, transposed(k, F_), written.rows, M_, state, M_, true);
  }

  void read(const Chunk& chunk, const Given<T>& in, const T* state, const Written<T>& written, T* y,
            Arena<T> arena) const {
    const T* q = decays_.from_start(chunk.rows, in, in.q, arena);
    small_gemm(chunk.rows, M_, F_, plain(q, F_), state, M_, y, M_, false);
    if (chunk.keys == 0) return;
    // Rows of X grow with earlier updates; an infinite one must not be multiplied even by 0. So
    // full products cover only keys before a band, and within the band only the visible ones.
    each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
      const T* band = written.scores + first * chunk.keys;
      small_gemm(rows, M_, std::min(first, seen), plain(band, chunk.keys), written.rows, M_,
                 y + first * M_, M_, true);
      for (int64_t i = first; i < first + rows; ++i)
        for (int64_t j = first; j < std::min(i + 1, seen); ++j)
          add_row(written.rows + j * M_, y + i * M_, M_, written.scores[i * chunk.keys + j]);
    });
  }

  // dstate: dS' on entry, dS on return. d: of the rows of the chunk.
  void go_back(const Chunk& chunk, const Given<T>& in, const T* state, const Written<T>& written,
               const T* dy, T* dstate, const DeltaRows<T>& d, Arena<T> arena) const {
    const int64_t rows = chunk.rows, keys = chunk.keys;
    T *P = arena.take(C_ * C_), *G = shape_.corrects ? arena.take(C_ * C_) : nullptr,
      *dE = arena.take(C_ * M_);
    std::fill_n(dE, keys * M_, T(0));
    if (keys > 0) {
      hide_unseen(chunk, written.scores);
      add_future(chunk, M_, written.scores, {dy, M_}, dE, M_);
      Arena<T> scratch = arena;
      const T* k_to_end = decays_.keys_to_end(chunk, in, scratch);
      small_gemm(keys, M_, F_, plain(k_to_end, F_), dstate, M_, dE, M_, true);
      if (shape_.corrects) blas_solve(true, keys, M_, written.lower, dE);
      band_products(chunk, M_, {dy, M_}, {written.rows, M_}, P, arena);
      hide_unseen(chunk, P);
      scale_rows(keys, in.beta, dE, d.v);
    }
    if (keys > 0 && shape_.corrects) {
      const Chunk square{chunk.first, keys, keys};
      band_products(square, M_, {dE, M_}, {written.rows, M_}, G, arena);
      hide_unseen(square, G);
      for (int64_t i = 0; i < keys; ++i) {
        T* row = G + i * keys;
        d.beta[i] = dot(dE + i * M_, written.missed + i * M_, M_) -
                    dot(row, written.products + i * keys, i);
        for (int64_t j = 0; j < i; ++j) row[j] *= -in.beta[i];
        row[i] = 0;
      }
      for (int64_t i = 0; i < keys * M_; ++i) dE[i] = -d.v[i];
    } else if (d.beta != nullptr) {
      for (int64_t i = 0; i < keys; ++i) d.beta[i] = dot(dE + i * M_, in.v + i * M_, M_);
    }
    std::fill(d.v + keys * M_, d.v + rows * M_, T(0));
    if (d.beta != nullptr) std::fill(d.beta + keys, d.beta + rows, T(0));
    decays_.spread(chunk, in, {P, G, written.rows, dy, state, dE, dstate}, d, arena);
  }

  // factor null: 1
  void scale_rows(int64_t rows, const T* factor, const T* x, T* y) const {
    for (int64_t i = 0; i < rows; ++i)
      copy_scaled(x + i * M_, y + i * M_, M_, factor == nullptr ? T(1) : factor[i]);
  }

  const ChunkShape& shape_;
  const DeltaInput<T>& in_;
  int64_t F_, M_, C_;
  Decays<T> decays_;
};

}  // namespace linea::cpu

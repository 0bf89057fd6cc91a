// Rules without denominator, one segment at a time (Schlag 2021, section 4.2), and the decay of their
// state by a number of the head, or none; by a number of each feature: tensor/cpu/channel_decay.h.
// Chunks: tensor/cpu/delta_chunk.h.
//
// Where the state decays, S_i = a_i S_{i-1} + k_i^T beta_i (v_i - a_i k_i S_{i-1}), with the sums L_i
// of log a from the start of the chunk on (Yang 2025, "Gated delta networks", section 3.3), every
// product of positions i and j is multiplied by exp(L_i - L_j), of i and S by exp(L_i), of i and dS'
// by exp(L_C - L_i), and S in S' and dS' in dS by exp(L_C). No exponent is above 0. What y depends on
// is a product of q_i, exp(L_i) and of factors (beta_j v_j or beta_j k_j exp(L_j)) k_j exp(-L_j), so
//
//   dL_i = q_i.dq_i - k_i.dk_i + 2 (beta_i dbeta_i - v_i.dv_i),
//
// the gradient of the sum of all log decays up to position i of the sequence. Without correction it is
// q_i.dq_i - k_i.dk_i.
#include "tensor/cpu/channel_decay.h"
#include "tensor/cpu/delta_chunk.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// Given::sums is L [C].
template <typename T>
class HeadDecays {
 public:
  HeadDecays(const ChunkShape& shape, bool decays)
      : F_(shape.features), M_(shape.values), C_(shape.chunk), decays_(decays) {}

  static int64_t width() { return 1; }
  int64_t scratch_size() const { return decays_ ? C_ * (1 + 2 * F_ + M_) : 0; }

  const T* sums(int64_t rows, const T* log_decay, Arena<T>& arena) const {
    if (!decays_) return nullptr;
    T *L = arena.take(C_), sum = 0;
    for (int64_t i = 0; i < rows; ++i) L[i] = sum += log_decay[i];
    return L;
  }

  // products null: not asked for
  void pairs(const Chunk& chunk, const Given<T>& in, T* scores, T* products,
             const Arena<T>& arena) const {
    if (products != nullptr) {
      const Chunk square{0, chunk.keys, chunk.keys};
      band_products(square, F_, {in.k, F_}, {in.k, F_}, products, arena);
      decay_pairs(square, in.sums, products);
    }
    if (in.q == nullptr) return;
    band_products(chunk, F_, {in.q, F_}, {in.k, F_}, scores, arena);
    decay_pairs(chunk, in.sums, scores);
  }

  // Rows times exp(L_i), keys times exp(L_C - L_i); themselves without decays.
  const T* from_start(int64_t rows, const Given<T>& in, const T* x, Arena<T>& arena) const {
    return scaled(rows, F_, in, x, arena, [&](int64_t i) { return in.sums[i]; });
  }
  const T* keys_to_end(const Chunk& chunk, const Given<T>& in, Arena<T>& arena) const {
    return to_end(chunk, F_, in, in.k, arena);
  }
  void decay_state(const Chunk& chunk, const Given<T>& in, T* state) const {
    if (decays_) scale_row(state, F_ * M_, exp_below(in.sums[chunk.rows - 1]));
  }

  void spread(const Chunk& chunk, const Given<T>& in, const ChunkGradients<T>& of,
              const DeltaRows<T>& d, Arena<T> arena) const {
    const int64_t rows = chunk.rows, keys = chunk.keys;
    multiply_transposed(rows, F_, M_, {of.dy, M_}, of.state, d.q, false, arena);
    decay_rows(rows, F_, in, d.q);
    const T* q_from_start = from_start(rows, in, in.q, arena);
    std::fill_n(d.k, rows * F_, T(0));
    if (keys > 0) {
      decay_pairs(chunk, in.sums, of.P);
      add_past(chunk, F_, of.P, {in.k, F_}, d.q, F_);
      add_future(chunk, F_, of.P, {in.q, F_}, d.k, F_);
      const T* x_to_end = to_end(chunk, M_, in, of.X, arena);
      multiply_transposed(keys, F_, M_, {x_to_end, M_}, of.dstate, d.k, true, arena);
    }
    if (keys > 0 && of.BG != nullptr) {
      const Chunk square{chunk.first, keys, keys};
      decay_pairs(square, in.sums, of.BG);
      add_past(square, F_, of.BG, {in.k, F_}, d.k, F_);
      add_future(square, F_, of.BG, {in.k, F_}, d.k, F_);
      decay_rows(keys, M_, in, of.dU);
      multiply_transposed(keys, F_, M_, {of.dU, M_}, of.state, d.k, true, arena);
    }
    decay_state(chunk, in, of.dstate);
    small_gemm(F_, M_, rows, transposed(q_from_start, F_), of.dy, M_, of.dstate, M_, true);
    if (of.BG != nullptr)
      small_gemm(F_, M_, keys, transposed(in.k, F_), of.dU, M_, of.dstate, M_, true);
    for (int64_t i = 0; decays_ && i < rows; ++i) {
      d.sums[i] = dot(in.q + i * F_, d.q + i * F_, F_);
      if (i >= keys) continue;
      const T along_k = dot(in.k + i * F_, d.k + i * F_, F_);
      d.sums[i] +=
          of.BG != nullptr
              ? 2 * (in.beta[i] * d.beta[i] - dot(in.v + i * M_, d.v + i * M_, M_)) - along_k
              : -along_k;
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
  // x_i times exp(L_i)
  void decay_rows(int64_t rows, int64_t width, const Given<T>& in, T* x) const {
    for (int64_t i = 0; decays_ && i < rows; ++i)
      scale_row(x + i * width, width, exp_below(in.sums[i]));
  }

  const T* to_end(const Chunk& chunk, int64_t width, const Given<T>& in, const T* x,
                  Arena<T>& arena) const {
    return scaled(chunk.keys, width, in, x, arena,
                  [&](int64_t i) { return in.sums[chunk.rows - 1] - in.sums[i]; });
  }
  template <typename Log>
  const T* scaled(int64_t rows, int64_t width, const Given<T>& in, const T* x, Arena<T>& arena,
                  const Log& log) const {
    if (in.sums == nullptr) return x;
    T* y = arena.take(C_ * width);
    for (int64_t i = 0; i < rows; ++i)
      copy_scaled(x + i * width, y + i * width, width, exp_below(log(i)));
    return y;
  }

  int64_t F_, M_, C_;
  bool decays_;
};

// body(chunks), with decays as the shape has them.
template <typename T, typename Body>
void with_chunks(const ChunkShape& shape, const DeltaInput<T>& in, const Body& body) {
  if (shape.channel_decays)
    body(DeltaChunks<T, ChannelDecays>(shape, in));
  else
    body(DeltaChunks<T, HeadDecays>(shape, in));
}

}  // namespace

template <typename T>
void delta_forward(Context& ctx, const ChunkShape& shape, const DeltaInput<T>& in, T* state,
                   Strided<T> y) {
  with_chunks(shape, in, [&](const auto& chunks) { chunks.forward(ctx, state, y); });
}

template <typename T>
void delta_backward(Context& ctx, const ChunkShape& shape, const DeltaInput<T>& in,
                    Strided<const T> dy, const T* state, T* dstate, const DeltaGradients<T>& d) {
  with_chunks(shape, in, [&](const auto& chunks) { chunks.backward(ctx, dy, state, dstate, d); });
}

// S = a S, S += k^T beta (v - k S), y = q S; a = 1 without decays. Without correction S += k^T beta v.
template <typename T>
void delta_step(Context& ctx, const ChunkShape& shape, const DeltaInput<T>& in, T* state, T* y) {
  const int64_t BH = shape.batch_heads, F = shape.features, M = shape.values;
  const Workspace<T> workspace(ctx, BH * M);
  parallel_rows(ctx, BH, 8 * F * M, [&](int64_t bh) {
    T *written = workspace.data() + bh * M, *out = y + bh * M, *S = state + bh * F * M;
    const T *q = in.q + bh * F, *k = in.k + bh * F, *v = in.v.at(bh);
    const T beta = in.beta.data == nullptr ? T(1) : *in.beta.at(bh);
    if (shape.channel_decays)
      for (int64_t f = 0; f < F; ++f) scale_row(S + f * M, M, exp_below(in.log_decay.at(bh)[f]));
    else if (in.log_decay.data != nullptr)
      scale_row(S, F * M, exp_below(*in.log_decay.at(bh)));
    std::fill_n(written, M, T(0));
    for (int64_t f = 0; shape.corrects && f < F; ++f) add_row(S + f * M, written, M, k[f]);
    for (int64_t m = 0; m < M; ++m) written[m] = beta * (v[m] - written[m]);
    std::fill_n(out, M, T(0));
    for (int64_t f = 0; f < F; ++f) {
      add_row(written, S + f * M, M, k[f]);
      add_row(S + f * M, out, M, q[f]);
    }
  });
}

template <typename T>
void solve_unit_lower(Context& ctx, const T* l, const T* e, T* x, bool transpose, int64_t BH,
                      int64_t N, int64_t M) {
  std::copy_n(e, BH * N * M, x);
  if (N == 0 || M == 0) return;
  parallel_items(ctx, BH, kGrain, [&](int64_t bh, int) {
    blas_solve(transpose, N, M, l + bh * N * N, x + bh * N * M);
  });
}

LINEA_KERNEL_TABLE(DeltaKernels, .delta_forward = delta_forward<T>,
                   .delta_backward = delta_backward<T>)

LINEA_KERNEL_TABLE(DeltaStepKernels, .delta_step = delta_step<T>,
                   .solve_unit_lower = solve_unit_lower<T>)

}  // namespace linea::cpu

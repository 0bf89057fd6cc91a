// The inputs of the delta rule's chunks with the decays of the state, and the gradients of these.
// Formulas: tensor/cpu/delta.cpp.
#pragma once

#include "cuda/delta.h"
#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {

template <typename T>
struct Inputs {
  Inputs(const DeltaInput<T>& in, const Accumulator<T>* sums)
      : q(in.q), k(in.k), v(in.v), beta(in.beta), L(sums) {}
  const T *q, *k;
  Strided<const T> v, beta;
  const Accumulator<T>* L;  // [BH,S], the sums of log decays from the start of a chunk on; or null

  __device__ ChunkOf<T> queries(const ChunkShape& shape, const Chunk& chunk) const {
    return {q + (chunk.bh * shape.length + chunk.first) * shape.features, shape.features,
            chunk.rows};
  }
  __device__ ChunkOf<T> keys(const ChunkShape& shape, const Chunk& chunk) const {
    return {k + (chunk.bh * shape.length + chunk.first) * shape.features, shape.features,
            chunk.keys};
  }
  __device__ Accumulator<T> beta_at(const Chunk& chunk, int i) const {
    return i < chunk.keys ? Accumulator<T>(beta.at(chunk.bh)[chunk.first + i]) : Accumulator<T>(0);
  }
  // exp(L_i), exp(L_C - L_i), exp(L_i - L_j) and exp(L_C); 1 without decays, and past the rows.
  __device__ Accumulator<T> from_start(const ChunkShape& shape, const Chunk& chunk, int i) const {
    return L == nullptr || i >= chunk.rows ? Accumulator<T>(1) : exp_of(sums(shape, chunk)[i]);
  }
  __device__ Accumulator<T> to_end(const ChunkShape& shape, const Chunk& chunk, int i) const {
    return pair(shape, chunk, chunk.rows - 1, i);
  }
  __device__ Accumulator<T> pair(const ChunkShape& shape, const Chunk& chunk, int i, int j) const {
    if (L == nullptr || i >= chunk.rows || j > i) return Accumulator<T>(1);
    return exp_of(sums(shape, chunk)[i] - sums(shape, chunk)[j]);
  }
  __device__ Accumulator<T> decayed(const ChunkShape& shape, const Chunk& chunk,
                                    Accumulator<T> state) const {
    return L == nullptr ? state : state * from_start(shape, chunk, chunk.rows - 1);
  }

  __device__ const Accumulator<T>* sums(const ChunkShape& shape, const Chunk& chunk) const {
    return L + chunk.bh * shape.length + chunk.first;
  }
};

// L of all chunks. A function: nvcc takes no lambda of a constructor.
template <typename T>
void sum_decays(Context& ctx, const ChunkShape& shape, Strided<const T> log_decay,
                Accumulator<T>* L) {
  using A = Accumulator<T>;
  const int64_t chunks = chunk_count(shape), S = shape.length;
  for_each(ctx, shape.batch_heads * chunks, [=] __device__(int64_t slot) {
    const int64_t bh = slot / chunks, first = slot % chunks * kTile;
    A sum = 0;
    for (int64_t i = first; i < S && i < first + kTile; ++i)
      L[bh * S + i] = sum += A(log_decay.at(bh)[i]);
  });
}

// L of all chunks; null without decays.
template <typename T>
class DecaySums {
  using A = Accumulator<T>;

 public:
  DecaySums(Context& ctx, const ChunkShape& shape, Strided<const T> log_decay)
      : sums_(ctx, log_decay.data == nullptr ? 0 : shape.batch_heads * shape.length),
        decays_(log_decay.data != nullptr) {
    if (!decays_) return;
    sum_decays<T>(ctx, shape, log_decay, sums_.data());
  }
  const A* data() const { return decays_ ? sums_.data() : nullptr; }

 private:
  Workspace<A> sums_;
  bool decays_;
};

// dL_i = q_i.dq_i - k_i.dk_i + 2 (beta_i dbeta_i - v_i.dv_i)
template <typename T>
void decay_gradients(Context& ctx, const ChunkShape& shape, const Inputs<T>& in,
                     const DeltaGradients<T>& d) {
  using A = Accumulator<T>;
  const int64_t S = shape.length, F = shape.features, M = shape.values;
  for_each_team(ctx, shape.batch_heads * S, F + M, [=] __device__(auto team, int64_t row) {
    const int64_t bh = row / S, i = row % S;
    A sum = 0;
    const bool exists = i < valid_keys(shape.valid, bh, shape.first + S) - shape.first;
    for (int64_t f = team.rank(); f < F; f += team.kThreads) {
      sum += A(in.q[row * F + f]) * A(d.q[row * F + f]);
      if (exists) sum -= A(in.k[row * F + f]) * A(d.k[row * F + f]);
    }
    if (exists)
      for (int64_t m = team.rank(); m < M; m += team.kThreads)
        sum -= 2 * A(in.v.at(bh)[i * M + m]) * A(d.v.at(bh)[i * M + m]);
    sum = team.sum(sum);
    if (team.rank() == 0)
      d.log_decay.at(bh)[i] =
          T(exists ? sum + 2 * A(in.beta.at(bh)[i]) * A(d.beta.at(bh)[i]) : sum);
  });
}

}  // namespace linea::cuda

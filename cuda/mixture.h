// A row's mixture of logistic distributions over the levels of a token (formulas.h): K logits, K
// means, K log scales.
#pragma once

#include "cuda/grid.h"
#include "tensor/kernels.h"

namespace linea::cuda {

inline constexpr int kMixed = static_cast<int>(kLogistics);

template <typename A>
__device__ A log_sum_exp(const A (&x)[kMixed]) {
  A largest = x[0], sum = 0;
#pragma unroll
  for (int k = 1; k < kMixed; ++k) largest = x[k] > largest ? x[k] : largest;
#pragma unroll
  for (int k = 0; k < kMixed; ++k) sum += exp_of(x[k] - largest);
  return largest + std::log(sum);
}

// log sum exp of a row's logits, the normalizer of its mixture weights.
template <typename T>
__device__ Accumulator<T> log_whole(const T* row) {
  Accumulator<T> logits[kMixed];
#pragma unroll
  for (int k = 0; k < kMixed; ++k) logits[k] = Accumulator<T>(row[k]);
  return log_sum_exp(logits);
}

template <typename T>
__device__ Logistic<Accumulator<T>> logistic_of(const T* row, int k, int64_t V) {
  using A = Accumulator<T>;
  return Logistic<A>::of(A(row[kMixed + k]), A(row[2 * kMixed + k]), static_cast<A>(V - 1));
}

// Calls body(s, log P(s)) for every level s < V of a row's mixture, in one thread each. All threads of
// the block call it. The bins of neighboring levels share an edge, of which a thread computes what takes
// most.
template <typename T, typename Body>
__device__ void each_level(const T* row, int64_t V, const Body& body) {
  using A = Accumulator<T>;
  __shared__ Logistic<A> parts[kMixed];
  __shared__ A log_share[kMixed], tail[kMixed][kBlockThreads + 1];
  const int own = static_cast<int>(threadIdx.x);
  if (own < kMixed) {
    // Assigned first: the race checker does not see a store of a returned value.
    const Logistic<A> part = logistic_of(row, own, V);
    parts[own] = part;
    log_share[own] = A(row[own]) - log_whole(row);
  }
  __syncthreads();
  const A last = parts[0].last;  // in one register, so that all parts divide by it once
  const auto part_at = [&](int k) {
    Logistic<A> part = parts[k];
    part.last = last;
    return part;
  };
  for (int64_t first = 0; first < V; first += kBlockThreads) {
    for (int i = own; i <= kBlockThreads; i += kBlockThreads)
#pragma unroll
      for (int k = 0; k < kMixed; ++k)
        tail[k][i] = softplus_tail(part_at(k).a(static_cast<A>(first + i)));
    __syncthreads();
    if (const int64_t level = first + own; level < V) {
      A log_p[kMixed];
#pragma unroll
      for (int k = 0; k < kMixed; ++k)
        log_p[k] = log_share[k] +
                   part_at(k).log_mass(static_cast<A>(level), tail[k][own], tail[k][own + 1]);
      body(level, log_sum_exp(log_p));
    }
    __syncthreads();  // the next levels, or the next call, reuse tail
  }
}

}  // namespace linea::cuda

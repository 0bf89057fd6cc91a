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

template <typename A>
struct Mixture {
  Logistic<A> parts[kMixed];
  A log_share[kMixed];

  __device__ A log_p(int64_t level) const {
    A log_p[kMixed];
    const A last = parts[0].last;
#pragma unroll
    for (int k = 0; k < kMixed; ++k) {
      Logistic<A> part = parts[k];
      part.last = last;  // in one register, so that all parts divide by it once
      log_p[k] = log_share[k] + part.log_mass(static_cast<A>(level));
    }
    return log_sum_exp(log_p);
  }
};

// A row's mixture in shared memory, valid until the block's next call. All threads of the block
// call it.
template <typename T>
__device__ const Mixture<Accumulator<T>>& block_mixture(const T* row, int64_t V) {
  __shared__ Mixture<Accumulator<T>> mixture;
  __syncthreads();
  if (threadIdx.x < kMixed) {
    const int k = static_cast<int>(threadIdx.x);
    // Assigned first: the race checker does not see a store of a returned value.
    const Logistic<Accumulator<T>> own = logistic_of(row, k, V);
    mixture.parts[k] = own;
    mixture.log_share[k] = Accumulator<T>(row[k]) - log_whole(row);
  }
  __syncthreads();
  return mixture;
}

}  // namespace linea::cuda

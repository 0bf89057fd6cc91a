// Reductions over the threads of a warp and of a block, in a fixed order, so that results are
// reproducible bit by bit.
#pragma once

#include "cuda/grid.h"

namespace linea::cuda {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFFu;
inline constexpr int kWarp = 32, kBlockWarps = kBlockThreads / kWarp;

__device__ inline int own_warp() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ inline int own_lane() { return static_cast<int>(threadIdx.x) % kWarp; }

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// Propagates NaN.
struct Largest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : a > b ? a : b;
  }
};

// All lanes get the result of theirs, 2^n neighbors.
template <typename T, typename Op>
__device__ T warp_reduce(T x, Op op, int lanes = kWarp) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    if (distance < lanes) x = op(x, __shfl_xor_sync(kWholeWarp, x, distance));
  return x;
}

// All threads of a block of kBlockThreads get the result. All of them must call it.
template <typename T, typename Op>
__device__ T block_reduce(T x, Op op) {
  __shared__ T part[kBlockWarps];
  x = warp_reduce(x, op);
  if (own_lane() == 0) part[own_warp()] = x;
  __syncthreads();
  x = part[0];
#pragma unroll
  for (int warp = 1; warp < kBlockWarps; ++warp) x = op(x, part[warp]);
  __syncthreads();  // the next call reuses part
  return x;
}

template <typename T>
__device__ T warp_sum(T x) {
  return warp_reduce(x, Sum{});
}
template <typename T>
__device__ T warp_max(T x) {
  return warp_reduce(x, Largest{});
}

// Inclusive prefix sum over the lanes.
template <typename T>
__device__ T warp_running_sum(T x) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = __shfl_up_sync(kWholeWarp, x, distance);
    if (own_lane() >= distance) x += before;
  }
  return x;
}

}  // namespace linea::cuda

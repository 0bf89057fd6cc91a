// Products of 64 x 64 tiles by a block of 256 threads. Factors are given by functions of their
// elements, so that features, scales and masks are computed on the way into shared memory. Factors
// in bf16 are multiplied by tensor cores (cuda/tile_cores.h) with float accumulators; others in
// cuda/tile_floats.h.
#pragma once

#include <type_traits>

#include "cuda/block.h"
#include "cuda/tile_cores.h"
#include "cuda/tile_floats.h"
#include "tensor/bfloat16.h"
#include "tensor/element.h"

namespace linea::cuda {

inline constexpr int kSums = 16;  // per thread
static_assert(kTile * kTile == kBlockThreads * kSums);

// Whether factors are rounded to T = bf16 and multiplied by tensor cores.
template <typename T>
inline constexpr bool kByCores = std::is_same_v<T, BFloat16>;

// A thread's sums of a tile, for factors of type T. All Sums have the same rows and columns.
template <typename T>
struct Sums {
  using A = Accumulator<T>;
  A x[kSums] = {};
  __device__ A& operator[](int e) { return x[e]; }
  __device__ const A& operator[](int e) const { return x[e]; }

  // Calls body(e, row, column) for each sum.
  template <typename Body>
  __device__ static void each(const Body& body) {
    each_of_cores(body);
  }
};

template <typename T>
using Panels = std::conditional_t<kByCores<T>, CorePanels, PlainPanels<T>>;

// sums[row][column] += sum_l left(row, l) right(column, l), l < terms. Both are called for 0 .. 63,
// and return 0 out of range. Every thread of the block calls it; the factors may read shared memory
// written just before, and `panels` is free afterwards.
template <Along kLeft, Along kRight, typename T, typename Left, typename Right>
__device__ void add_product(Sums<T>& sums, int64_t terms, const Left& left, const Right& right,
                            Panels<T>& panels) {
  constexpr int kAtOnce = kByCores<T> ? CorePanels::kDeep : kDeep<T>;
  for (int64_t first = 0; first < terms; first += kAtOnce) {
    __syncthreads();
    load_panel<kLeft>(panels.left, first, terms, left);
    load_panel<kRight>(panels.right, first, terms, right);
    __syncthreads();
    if constexpr (kByCores<T>) {
      multiply_panels<kLeft, kRight>(
          sums.x, static_cast<int>(terms - first < kAtOnce ? terms - first : kAtOnce), panels);
    } else {
      multiply_panels(sums.x, panels);
    }
  }
  __syncthreads();
}

// Sums each thread's values of its two rows over whole rows, and calls body(row, sum) in one thread
// per row. All threads call it, once in a kernel.
template <typename A, typename Body>
__device__ void sum_rows(const A (&own)[2], const Body& body) {
  __shared__ A half[2][kTile];  // over 32 columns each
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    A x = own[i];
    for (int distance = 1; distance < 4; distance *= 2)
      x += __shfl_xor_sync(kWholeWarp, x, distance);
    if (threadIdx.x % 4 == 0) half[core_col() / 32][core_row() + 8 * i] = x;
  }
  __syncthreads();
  if (threadIdx.x < kTile)
    body(static_cast<int>(threadIdx.x), half[0][threadIdx.x] + half[1][threadIdx.x]);
}

inline int64_t tiles_of(int64_t size) { return size <= kTile ? 1 : (size + kTile - 1) / kTile; }

}  // namespace linea::cuda

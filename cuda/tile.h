// Products of tiles of 64 x 64 by a block of 256 threads, 16 x 16 of them with 4 x 4 sums each. What is multiplied is
// asked for element by element, so that features, scales and masks are made on the way into shared memory.
#pragma once

#include "cuda/block.h"

namespace linea::cuda {

inline constexpr int kTile = 64;
inline constexpr int kOwn = 4;  // rows and columns of the sums of a thread
static_assert(kTile * kTile == kBlockThreads * kOwn * kOwn);

// How many terms are brought to shared memory at once: no kernel needs more than 48 KiB of it.
template <typename A>
inline constexpr int kDeep = sizeof(A) == 8 ? 8 : 16;

// Pieces of the two factors, by term; four of a row are read at once.
template <typename A>
struct Panels {
  static constexpr int kRow = kTile + kOwn;
  alignas(16) A left[kDeep<A> * kRow], right[kDeep<A> * kRow];
};
template <typename A>
struct alignas(16) Four {
  A x[kOwn];
};

__device__ inline int own_row() { return static_cast<int>(threadIdx.x) / (kTile / kOwn) * kOwn; }
__device__ inline int own_col() { return static_cast<int>(threadIdx.x) % (kTile / kOwn) * kOwn; }

// In which direction a factor lies in memory: neighbouring threads ask for neighbouring terms, or rows (columns).
enum class Along { terms, tile };

// panel[term][place] = at(place, term) of the terms `first` and on, 0 from `terms` on.
template <Along kAlong, typename A, typename At>
__device__ void load_panel(A* panel, int64_t first, int64_t terms, const At& at) {
#pragma unroll
  for (int e = 0; e < kDeep<A> * kTile; e += kBlockThreads) {
    const int index = e + static_cast<int>(threadIdx.x);
    const int term = kAlong == Along::terms ? index % kDeep<A> : index / kTile;
    const int place = kAlong == Along::terms ? index / kDeep<A> : index % kTile;
    panel[term * Panels<A>::kRow + place] = first + term < terms ? at(place, first + term) : A(0);
  }
}

// sum[a][b] += sum_l left(own_row() + a, l) right(own_col() + b, l) over l < terms. left and right answer for places
// 0 .. 63, with 0 where there is nothing. Every thread of the block calls it; what they read may have been written to
// shared memory just before, and `panels` is free afterwards.
template <Along kLeft, Along kRight, typename A, typename Left, typename Right>
__device__ void add_product(A (&sum)[kOwn][kOwn], int64_t terms, const Left& left, const Right& right,
                            Panels<A>& panels) {
  const int row = own_row(), col = own_col();
  for (int64_t first = 0; first < terms; first += kDeep<A>) {
    __syncthreads();
    load_panel<kLeft>(panels.left, first, terms, left);
    load_panel<kRight>(panels.right, first, terms, right);
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kDeep<A>; ++l) {
      const Four<A> x = *reinterpret_cast<const Four<A>*>(panels.left + l * Panels<A>::kRow + row);
      const Four<A> z = *reinterpret_cast<const Four<A>*>(panels.right + l * Panels<A>::kRow + col);
#pragma unroll
      for (int a = 0; a < kOwn; ++a)
#pragma unroll
        for (int b = 0; b < kOwn; ++b) sum[a][b] += x.x[a] * z.x[b];
    }
  }
  __syncthreads();
}

// body(a, b, row, col) for each sum of this thread.
template <typename Body>
__device__ void each_own(const Body& body) {
#pragma unroll
  for (int a = 0; a < kOwn; ++a)
#pragma unroll
    for (int b = 0; b < kOwn; ++b) body(a, b, own_row() + a, own_col() + b);
}

// The sum over the threads that hold the same rows, in all of them.
template <typename A>
__device__ A sum_of_row(A x) {
#pragma unroll
  for (int distance = kTile / kOwn / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}

inline int64_t tiles_of(int64_t size) { return size <= kTile ? 1 : (size + kTile - 1) / kTile; }

}  // namespace linea::cuda

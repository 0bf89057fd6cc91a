// Products of tiles of 64 x 64 by a block of 256 threads. What is multiplied is asked for element by element, so that
// features, scales and masks are made on the way into shared memory. Of float and double, 16 x 16 threads make 4 x 4
// sums each; of bf16 the tensor cores do (cuda/tile_cores.h), and add in float.
#pragma once

#include <type_traits>

#include "cuda/block.h"
#include "cuda/tile_cores.h"
#include "tensor/bfloat16.h"
#include "tensor/element.h"

namespace linea::cuda {

inline constexpr int kOwn = 4;  // rows and columns of the sums of a thread
inline constexpr int kSums = kOwn * kOwn;
static_assert(kTile * kTile == kBlockThreads * kSums);

// Whether factors are rounded to T, bf16, and multiplied by tensor cores.
template <typename T>
inline constexpr bool kByCores = std::is_same_v<T, BFloat16>;

__device__ inline int own_row() { return static_cast<int>(threadIdx.x) / (kTile / kOwn) * kOwn; }
__device__ inline int own_col() { return static_cast<int>(threadIdx.x) % (kTile / kOwn) * kOwn; }

// The sums that a thread has of a tile, where factors are multiplied as T. Which rows and columns they are depends on
// T alone, so that several Sums<T> go together element by element.
template <typename T>
struct Sums {
  using A = Accumulator<T>;
  A x[kSums] = {};
  __device__ A& operator[](int e) { return x[e]; }
  __device__ const A& operator[](int e) const { return x[e]; }

  // body(e, row, column) for each.
  template <typename Body>
  __device__ static void each(const Body& body) {
    if constexpr (kByCores<T>) {
      each_of_cores(body);
    } else {
#pragma unroll
      for (int e = 0; e < kSums; ++e) body(e, own_row() + e / kOwn, own_col() + e % kOwn);
    }
  }
};

// Those of several tiles beside each other, their columns counted through.
template <typename T, int kTiles>
struct WideSums {
  using A = Accumulator<T>;
  static constexpr int kCount = kTiles * kSums, kColumns = kTiles * kTile;
  Sums<T> tile[kTiles];
  __device__ A& operator[](int e) { return tile[e / kSums][e % kSums]; }

  template <typename Body>
  __device__ static void each(const Body& body) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
      Sums<T>::each([&](int e, int row, int column) { body(t * kSums + e, row, t * kTile + column); });
  }
};

// How many terms are brought to shared memory at once: no kernel needs more than 48 KiB of it.
template <typename A>
inline constexpr int kDeep = sizeof(A) == 8 ? 8 : 16;

// Pieces of the two factors, by term; four of a row are read at once.
template <typename T>
struct PlainPanels {
  static constexpr int kRow = kTile + kOwn;
  alignas(16) T left[kDeep<T> * kRow], right[kDeep<T> * kRow];
};
template <typename T>
using Panels = std::conditional_t<kByCores<T>, CorePanels, PlainPanels<T>>;
template <typename A>
struct alignas(16) Four {
  A x[kOwn];
};

// panel[term][place] = at(place, term) of the terms `first` and on, 0 from `terms` on.
template <Along kAlong, typename A, typename At>
__device__ void load_panel(A* panel, int64_t first, int64_t terms, const At& at) {
#pragma unroll
  for (int e = 0; e < kDeep<A> * kTile; e += kBlockThreads) {
    const int index = e + static_cast<int>(threadIdx.x);
    const int term = kAlong == Along::terms ? index % kDeep<A> : index / kTile;
    const int place = kAlong == Along::terms ? index / kDeep<A> : index % kTile;
    panel[term * PlainPanels<A>::kRow + place] = first + term < terms ? at(place, first + term) : A(0);
  }
}

template <typename A>
__device__ void multiply_panels(Sums<A>& sum, const PlainPanels<A>& panels) {
  const int row = own_row(), col = own_col();
#pragma unroll
  for (int l = 0; l < kDeep<A>; ++l) {
    const Four<A> x = *reinterpret_cast<const Four<A>*>(panels.left + l * PlainPanels<A>::kRow + row);
    const Four<A> z = *reinterpret_cast<const Four<A>*>(panels.right + l * PlainPanels<A>::kRow + col);
#pragma unroll
    for (int e = 0; e < kSums; ++e) sum[e] += x.x[e / kOwn] * z.x[e % kOwn];
  }
}

// sums[row][column] += sum_l left(row, l) right(column, l) over l < terms, of kTiles tiles beside each other those that
// have some of the first `columns` columns. left answers for places 0 .. 63, right for those of all tiles, with 0 where
// there is nothing. Every thread of the block calls it; what they read may have been written to shared memory just
// before, and `panels` is free afterwards.
template <Along kLeft, Along kRight, int kTiles, typename T, typename Left, typename Right>
__device__ void add_to_tiles(Sums<T>* sums, int64_t columns, int64_t terms, const Left& left, const Right& right,
                             Panels<T>& panels) {
  constexpr int kAtOnce = kByCores<T> ? CorePanels::kDeep : kDeep<T>;
  for (int64_t first = 0; first < terms; first += kAtOnce) {
    __syncthreads();
    load_panel<kLeft>(panels.left, first, terms, left);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (tile > 0 && tile * kTile >= columns) continue;
      if (tile > 0) __syncthreads();
      load_panel<kRight>(panels.right, first, terms,
                         [&](int column, int64_t term) { return right(tile * kTile + column, term); });
      __syncthreads();
      if constexpr (kByCores<T>) {
        multiply_panels<kLeft, kRight>(sums[tile].x,
                                       static_cast<int>(terms - first < kAtOnce ? terms - first : kAtOnce), panels);
      } else {
        multiply_panels(sums[tile], panels);
      }
    }
  }
  __syncthreads();
}

template <Along kLeft, Along kRight, typename T, int kTiles, typename Left, typename Right>
__device__ void add_products(WideSums<T, kTiles>& sums, int64_t columns, int64_t terms, const Left& left,
                             const Right& right, Panels<T>& panels) {
  add_to_tiles<kLeft, kRight, kTiles>(sums.tile, columns, terms, left, right, panels);
}
template <Along kLeft, Along kRight, typename T, typename Left, typename Right>
__device__ void add_product(Sums<T>& sum, int64_t terms, const Left& left, const Right& right, Panels<T>& panels) {
  add_to_tiles<kLeft, kRight, 1>(&sum, kTile, terms, left, right, panels);
}

// The sum over the threads that hold the same rows of sums that are not made by tensor cores, in all of them.
template <typename A>
__device__ A sum_of_row(A x) {
#pragma unroll
  for (int distance = kTile / kOwn / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}

inline int64_t tiles_of(int64_t size) { return size <= kTile ? 1 : (size + kTile - 1) / kTile; }

}  // namespace linea::cuda

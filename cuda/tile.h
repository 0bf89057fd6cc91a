// Products of 64 x 64 tiles by a block of 256 threads. Factors are given by functions of their
// elements, so that features, scales and masks are computed on the way into shared memory. Threads
// compute their sums one by one or, for floats, by tensor cores according to FloatProducts.
#pragma once

#include "cuda/block.h"
#include "cuda/ptx.h"
#include "tensor/context.h"
#include "tensor/kernel_shapes.h"

namespace linea::cuda {

inline constexpr int kTile = 64, kSums = 16;  // per thread
static_assert(kTile * kTile == kBlockThreads * kSums);

// The direction in which a factor is contiguous in memory: neighboring threads request neighboring
// terms, or neighboring rows (columns).
enum class Along { terms, tile };

// The first row and column of a thread's 16 sums, as tensor cores share them: the eight warps of a
// block split a tile into four bands of 16 rows by two halves of 32 columns. The sums are of that
// row and the eighth after it, in four pairs of columns.
__device__ inline int core_row() { return own_warp() / 2 * 16 + own_lane() / 4; }
__device__ inline int core_col() { return own_warp() % 2 * 32 + own_lane() % 4 * 2; }

// A thread's sums of a tile. All Sums have the same rows and columns.
template <typename A>
struct Sums {
  A x[kSums] = {};
  __device__ A& operator[](int e) { return x[e]; }
  __device__ const A& operator[](int e) const { return x[e]; }

  // Calls body(e, row, column) for each sum.
  template <typename Body>
  __device__ static void each(const Body& body) {
    const int row = core_row(), col = core_col();
#pragma unroll
    for (int e = 0; e < kSums; ++e) body(e, row + (e & 2) * 4, col + e / 4 * 8 + (e & 1));
  }
};

// ---- factors ----

inline int64_t tiles_of(int64_t size) { return size <= kTile ? 1 : (size + kTile - 1) / kTile; }
// Those of `count` rows that a tile has.
__device__ inline int within_tile(int64_t count) {
  return static_cast<int>(count < 0 ? 0 : count < kTile ? count : kTile);
}

// A matrix of a tile in shared memory.
template <typename A>
using Square = A[kTile][kTile + 1];

// `count` rows of `width` numbers, `stride` apart.
template <typename T>
struct TileRows {
  using A = Accumulator<T>;
  const T* data;
  int64_t stride, width;
  int count;

  __device__ A or_zero(int i, int64_t d) const {
    return i < count && d < width ? A(data[i * stride + d]) : A(0);
  }
  __device__ TileRows from(int64_t first) const {
    return {data + first * stride, stride, width, static_cast<int>(count - first)};
  }
};
// A whole matrix.
template <typename T>
__device__ TileRows<T> matrix_rows(const T* data, int64_t rows, int64_t width) {
  return {data, width, width, static_cast<int>(rows)};
}
// The rows of bh from `first` on; none where x is absent.
template <typename T>
__device__ TileRows<T> tile_rows(const HeadRows<const T>& x, int64_t bh, int64_t first, int count,
                                 int64_t width) {
  return {x.at(bh, first), x.row, width, x.data == nullptr ? 0 : count};
}

// Factors of add_product() whose vectors are rows of x, or its columns from `first` on. x is a
// Square, or has or_zero(row, column).
template <typename X>
__device__ auto by_rows(const X& x) {
  return [x](int i, int64_t term) { return x.or_zero(i, term); };
}
template <typename X>
__device__ auto by_columns(const X& x, int64_t first) {
  return [x, first](int i, int64_t term) { return x.or_zero(static_cast<int>(term), first + i); };
}
template <typename A>
__device__ auto by_rows(const Square<A>& x) {
  return [&x](int i, int64_t term) { return x[i][term]; };
}
template <typename A>
__device__ auto by_columns(const Square<A>& x) {
  return [&x](int i, int64_t term) { return x[term][i]; };
}

// ---- products ----

// The number of terms in shared memory at a time; no kernel needs more than 48 KiB.
template <typename A>
inline constexpr int kDeep = sizeof(A) == 8 ? 8 : 16;

// Panels of the two factors, by term. Rows are padded by eight elements so that the lanes of a warp
// read eight neighbors of each of four terms without bank conflicts (writes of sixteen terms have
// 4-way conflicts).
template <typename A>
struct Panels {
  static constexpr int kRow = kTile + 8;
  alignas(16) A left[kDeep<A> * kRow], right[kDeep<A> * kRow];
  FloatProducts products;
};

// panel[term][vector] = at(vector, term) for the terms from `first` on; 0 from `terms` on.
template <Along kAlong, typename A, typename At>
__device__ void load_panel(A* panel, int64_t first, int64_t terms, const At& at) {
#pragma unroll
  for (int e = 0; e < kDeep<A> * kTile; e += kBlockThreads) {
    const int index = e + static_cast<int>(threadIdx.x);
    const int term = kAlong == Along::terms ? index % kDeep<A> : index / kTile;
    const int vector = kAlong == Along::terms ? index / kDeep<A> : index % kTile;
    panel[term * Panels<A>::kRow + vector] = first + term < terms ? at(vector, first + term) : A(0);
  }
}

// Calls add(sum, left, right) for each sum and term of the panels.
template <typename A, typename Add>
__device__ void add_one_by_one(A (&sums)[kSums], const Panels<A>& panels, const Add& add) {
  struct alignas(2 * sizeof(A)) Two {
    A x[2];
  };
  const int row = core_row(), col = core_col();
#pragma unroll 2
  for (int term = 0; term < kDeep<A>; ++term) {
    const A *left = panels.left + term * Panels<A>::kRow + row, x[2] = {left[0], left[8]};
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const Two z =
          *reinterpret_cast<const Two*>(panels.right + term * Panels<A>::kRow + col + part * 8);
#pragma unroll
      for (int e = 0; e < 4; ++e) add(sums[part * 4 + e], x[e / 2], z.x[e % 2]);
    }
  }
}

// The elements of a fragment as TF32 and, if split, their rounding errors as a second TF32.
template <int kCount>
struct TensorFloats {
  uint32_t high[kCount], low[kCount];
  __device__ void set(int i, float x, bool split) {
    high[i] = to_tf32(x);
    low[i] = split ? to_tf32(x - __uint_as_float(high[i])) : 0;
  }
};

// `split`: adds the products with the rounding errors of one factor. Tensor cores truncate sums, so
// the sums of eight terms are accumulated outside of them, with rounding (Ootomo and Yokota 2022).
__device__ inline void multiply_by_cores(float (&sums)[kSums], const Panels<float>& panels,
                                         bool split) {
  constexpr int kRow = Panels<float>::kRow;
  const int lane = own_lane(), row = core_row(), col = own_warp() % 2 * 32 + lane / 4;
#pragma unroll 1
  for (int first = 0; first < kDeep<float>; first += 8) {
    const int term = first + lane % 4;
    TensorFloats<4> a;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a.set(i, panels.left[(term + (i & 2) * 2) * kRow + row + (i & 1) * 8], split);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      TensorFloats<2> b;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        b.set(i, panels.right[(term + i * 4) * kRow + col + part * 8], split);
      float d[4] = {};
      if (split) {
        mma_m16n8k8(d, a.low, b.high);
        mma_m16n8k8(d, a.high, b.low);
      }
      mma_m16n8k8(d, a.high, b.high);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[part * 4 + e] += d[e];
    }
  }
}

// sums += left right^T over the terms of the panels.
template <typename A>
__device__ void multiply_panels(A (&sums)[kSums], const Panels<A>& panels) {
  if constexpr (std::is_same_v<A, float>)
    if (panels.products != FloatProducts::exact)
      return multiply_by_cores(sums, panels, panels.products == FloatProducts::split);
  add_one_by_one(sums, panels, [](A& sum, A x, A z) { sum += x * z; });
}

// The shape of a call with its FloatProducts. Rows of bf16 need no more than TF32.
template <typename T, typename Shape>
Shape as_multiplied(const Context& ctx, Shape shape) {
  shape.products = std::is_same_v<T, BFloat16> ? FloatProducts::rounded : ctx.products;
  return shape;
}
// A kernel calls it once, before the first product.
template <typename A>
__device__ void multiply_as(FloatProducts products, Panels<A>& panels) {
  if (threadIdx.x == 0) panels.products = products;
}

// Calls add() with the panels of left(row, l) and right(column, l), l < terms, one after another. Both
// are called for 0 .. 63, and return 0 out of range. Every thread of the block calls it; the factors
// may read shared memory written just before, and `panels` is free afterwards.
template <Along kLeft, Along kRight, typename A, typename Left, typename Right, typename Add>
__device__ void each_panel(int64_t terms, const Left& left, const Right& right, Panels<A>& panels,
                           const Add& add) {
  for (int64_t first = 0; first < terms; first += kDeep<A>) {
    __syncthreads();
    load_panel<kLeft>(panels.left, first, terms, left);
    load_panel<kRight>(panels.right, first, terms, right);
    __syncthreads();
    add();
  }
  __syncthreads();
}

// sums[row][column] += sum_l left(row, l) right(column, l)
template <Along kLeft, Along kRight, typename A, typename Left, typename Right>
__device__ void add_product(Sums<A>& sums, int64_t terms, const Left& left, const Right& right,
                            Panels<A>& panels) {
  each_panel<kLeft, kRight>(terms, left, right, panels, [&] { multiply_panels(sums.x, panels); });
}

// sums[row][column] += sum_l (left(row, l) - right(column, l))^2
template <Along kLeft, Along kRight, typename A, typename Left, typename Right>
__device__ void add_distances(Sums<A>& sums, int64_t terms, const Left& left, const Right& right,
                              Panels<A>& panels) {
  each_panel<kLeft, kRight>(terms, left, right, panels, [&] {
    add_one_by_one(sums.x, panels, [](A& sum, A x, A z) { sum += (x - z) * (x - z); });
  });
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

}  // namespace linea::cuda

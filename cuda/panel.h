// Panels of bf16 in shared memory and their products on tensor cores, for kernels whose inputs allow
// copies of 16 bytes. A warp computes bands of 16 rows of a product; its sums of one product are the left
// factor of the next without leaving registers. Every function is called by all threads of a warp,
// and those that copy or change a panel by all of a block.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/elements.h"
#include "cuda/tile.h"

namespace linea::cuda {

// The sums of a warp: bands of 16 rows by kColumns, in octets of eight rows. Lane l has, of each eight
// columns, two in row l / 4 of each octet.
template <int kColumns, int kBands = 1>
using BandSums = float[kBands][kColumns / 8][4];

// Calls body(sum, octet, row, column) for each of the lane's sums.
template <int kBands, int kTiles, typename Body>
__device__ __forceinline__ void each_sum(float (&sums)[kBands][kTiles][4], const Body& body) {
  const int lane = own_lane();
#pragma unroll
  for (int band = 0; band < kBands; ++band)
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int octet = 2 * band + e / 2;
        body(sums[band][t][e], octet, lane / 4 + octet * 8, t * 8 + lane % 4 * 2 + e % 2);
      }
}

// Rows are padded by eight bf16 so that the eight rows of an ldmatrix matrix have no bank conflicts.
template <int kRows, int kWidth>
struct Panel {
  static constexpr int kStride = kWidth + 8, kPerRow = kWidth / 8;  // units of 16 bytes
  alignas(16) BFloat16 x[kRows * kStride];

  __device__ BFloat16* at(int row, int col) { return x + row * kStride + col; }
  __device__ const BFloat16* at(int row, int col) const { return x + row * kStride + col; }
  __device__ uint32_t pair(int row, int col) const {
    return *reinterpret_cast<const uint32_t*>(at(row, col));
  }
  __device__ void set_pair(int row, int col, float low, float high) {
    const uint32_t word = to_bf16_pair(low, high);
    *reinterpret_cast<uint32_t*>(at(row, col)) = word;
  }

  // Starts to copy the rows first .. first + count - 1 of those at `rows`, `stride` apart; the others
  // become 0.
  template <int kThreads = kBlockThreads>
  __device__ __forceinline__ void bring(const BFloat16* rows, int stride, int first, int count) {
    static_assert(kThreads % kPerRow == 0 && kRows * kPerRow % kThreads == 0);
    constexpr int kRowsAtOnce = kThreads / kPerRow;
    const uint32_t thread = thread_read_anew();
    const int own = static_cast<int>(thread / kPerRow),
              col = static_cast<int>(thread % kPerRow * 8);
    const BFloat16* const from = rows + int64_t{first} * stride;
    BFloat16* const to = at(own, col);
    const uint32_t offset = static_cast<uint32_t>(own * stride + col);
#pragma unroll
    for (int row = 0; row < kRows; row += kRowsAtOnce) {
      const bool there = own + row < count;
      __pipeline_memcpy_async(to + row * kStride,
                              from + (there ? offset + static_cast<uint32_t>(row * stride) : 0), 16,
                              there ? 0 : 16);
    }
  }

  // Each number x of the first `count` rows becomes f(x, i) for its row i.
  template <typename F>
  __device__ __forceinline__ void transform(int count, const F& f) {
#pragma unroll
    for (int e = 0; e < kRows * kPerRow; e += kBlockThreads) {
      const int index = e + static_cast<int>(threadIdx.x), row = index / kPerRow;
      if (row >= count) continue;
      BFloat16* const unit = at(row, index % kPerRow * 8);
      each_of_group<8>([&](float from, float& to) { to = f(from, row); },
                       static_cast<const BFloat16*>(unit), unit);
    }
  }

  // The left factor of an mma, vectors from `row` and terms from `term` on. Along::terms: vectors
  // are rows of the panel; Along::tile: terms are.
  template <Along kAlong>
  __device__ __forceinline__ void left(uint32_t (&r)[4], int row, int term) const {
    load<kAlong, 1>(r, row, term);
  }
  // The right factors of two mma, which are adjacent columns.
  template <Along kAlong>
  __device__ __forceinline__ void right(uint32_t (&r)[4], int col, int term) const {
    load<kAlong, 2>(r, col, term);
  }

 private:
  // Four 8 x 8 matrices for a warp. kVectors 1: the second has the next eight vectors, the third the
  // next eight terms, as for the left factor of an mma; 2: the reverse, as for two right factors.
  template <Along kAlong, int kVectors>
  __device__ __forceinline__ void load(uint32_t (&r)[4], int vector, int term) const {
    const int matrix = own_lane() / 8, i = own_lane() % 8;
    const int v = (matrix & kVectors) != 0 ? 8 : 0, t = (matrix & (3 - kVectors)) != 0 ? 8 : 0;
    // The lane's offset first: the rest is constant in most calls.
    const BFloat16* const own = kAlong == Along::tile ? at(t + i, v) : at(v + i, t);
    ldmatrix<kAlong == Along::tile>(
        r, own + (kAlong == Along::tile ? term * kStride + vector : vector * kStride + term));
  }
};

// to[i] = from[i] for i < count and 0 for the others, copied as a panel's rows are.
template <int kCount>
__device__ __forceinline__ void bring_numbers(float (&to)[kCount], const float* from, int count) {
  const int i = static_cast<int>(threadIdx.x);
  const bool there = i < count;
  if (i < kCount) __pipeline_memcpy_async(to + i, from + (there ? i : 0), 4, there ? 0 : 4);
}

// sums += a times 16 terms of `right` from `term` on, its columns from `col` on.
template <Along kRight, int kBands, int kTiles, typename Right>
__device__ __forceinline__ void multiply_bands(float (&sums)[kBands][kTiles][4],
                                               const uint32_t (&a)[kBands][4], const Right& right,
                                               int col, int term) {
#pragma unroll
  for (int t = 0; t < kTiles; t += 2) {
    uint32_t b[4];
    right.template right<kRight>(b, col + t * 8, term);
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
      mma_m16n8k16(sums[band][t], a[band], {b[0], b[1]});
      mma_m16n8k16(sums[band][t + 1], a[band], {b[2], b[3]});
    }
  }
}

// sums[i][j] += sum_l left(row + i, l) right(col + j, l), l < kTerms.
template <int kTerms, Along kLeft, Along kRight, int kBands, int kTiles, typename Left,
          typename Right>
__device__ __forceinline__ void product(float (&sums)[kBands][kTiles][4], const Left& left, int row,
                                        const Right& right, int col = 0) {
#pragma unroll
  for (int term = 0; term < kTerms; term += 16) {
    uint32_t a[kBands][4];
#pragma unroll
    for (int band = 0; band < kBands; ++band)
      left.template left<kLeft>(a[band], row + band * 16, term);
    multiply_bands<kRight>(sums, a, right, col, term);
  }
}

// As product(), with the sums of an earlier product as the left factor, rounded to bf16.
template <Along kRight, int kBands, int kTiles, int kLeftTiles, typename Right>
__device__ __forceinline__ void product_from_registers(float (&sums)[kBands][kTiles][4],
                                                       const float (&left)[kBands][kLeftTiles][4],
                                                       const Right& right, int col = 0) {
#pragma unroll
  for (int t = 0; t < kLeftTiles; t += 2) {
    uint32_t a[kBands][4];
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* const two = &left[band][t + e / 2][e % 2 * 2];
        a[band][e] = to_bf16_pair(two[0], two[1]);
      }
    multiply_bands<kRight>(sums, a, right, col, t * 8);
  }
}

// to[row + i][j] = sums[i][j] in those rows that are below `count`, after finish(x, y, octet, row + i,
// j) for each pair of adjacent columns. A `lane` that is read anew takes no register in loops before.
template <int kBands, int kTiles, typename Finish>
__device__ __forceinline__ void write_rows(BFloat16* to, int stride,
                                           const float (&sums)[kBands][kTiles][4], int row,
                                           int count, const Finish& finish, int lane = own_lane()) {
#pragma unroll
  for (int octet = 0; octet < 2 * kBands; ++octet) {
    const int i = row + lane / 4 + octet * 8;
    if (i >= count) continue;
    BFloat16* const of_row = to + i * stride + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const float* const two = &sums[octet / 2][t][octet % 2 * 2];
      float x = two[0], y = two[1];
      finish(x, y, octet, i, t * 8 + lane % 4 * 2);
      const uint32_t pair = to_bf16_pair(x, y);
      *reinterpret_cast<uint32_t*>(of_row + t * 8) = pair;
    }
  }
  __syncwarp();  // before the next product
}

// ---- calls ----

inline constexpr bool is_width_of_panels(int64_t width) {
  return width == 32 || width == 64 || width == 128;
}
// Calls body(std::integral_constant<int, D>{}).
template <typename Body>
void with_width_of_panels(int64_t width, const Body& body) {
  if (width == 32) body(std::integral_constant<int, 32>{});
  if (width == 64) body(std::integral_constant<int, 64>{});
  if (width == 128) body(std::integral_constant<int, 128>{});
}

template <typename T>
__device__ __forceinline__ int stride_of(const HeadRows<T>& rows) {
  return static_cast<int>(rows.row);
}
// Whether rows may be copied by 16 bytes. Those that are absent may.
template <typename T>
bool allows_wide_copies(const HeadRows<T>& rows) {
  const auto address = reinterpret_cast<uintptr_t>(rows.data);
  return address % 16 == 0 && rows.batch % 8 == 0 && rows.head % 8 == 0 && rows.row % 8 == 0 &&
         rows.row < (1 << 24);  // so that offsets in a tile are int
}

// Calls body where a block can have each Shared<D>, and returns whether it does.
template <template <int> typename... Shared, typename Body>
bool with_width_that_fits(Context& ctx, int64_t width, const Body& body) {
  bool fits = false;
  with_width_of_panels(width, [&](auto D) {
    fits = ((shared_bytes<Shared<D.value>>(1) <= queue(ctx).shared_bytes) && ...);
    if (fits) body(D);
  });
  return fits;
}

// e = -(dy . y) / d of the rows of y [batch_heads,length,width]; d null: 1. In
// cuda/walk_backward.cu.
void sum_gradients_of_rows(Context& ctx, int64_t batch_heads, int64_t length, int64_t width,
                           const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                           const Strided<const float>& denominator, const Strided<float>& e);

}  // namespace linea::cuda

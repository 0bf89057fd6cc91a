// Panels of bf16 in shared memory and their products on tensor cores, for kernels whose inputs allow
// copies of 16 bytes. A warp computes 16 rows of a product; its sums of one product are the left
// factor of the next without leaving registers. Every function is called by all threads of a warp,
// and those that copy or change a panel by all of a block.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/tile_cores.h"

namespace linea::cuda {

// The sums of a warp: 16 rows by kColumns. Lane l has, of each eight columns, two in row l / 4 and
// two in the eighth row after it.
template <int kColumns>
using BandSums = float[kColumns / 8][4];

// Calls body(sum, lower, row, column) for each of the lane's sums; lower is 1 in the eight lower rows.
template <int kTiles, typename Body>
__device__ __forceinline__ void each_sum(float (&sums)[kTiles][4], const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      body(sums[t][e], e / 2, lane / 4 + e / 2 * 8, t * 8 + lane % 4 * 2 + e % 2);
}

// The two bf16 of a word.
__device__ __forceinline__ float lower_bf16(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float upper_bf16(uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000u);
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

  // Starts to copy `count` rows, `stride` apart; the others become 0.
  __device__ __forceinline__ void bring(const BFloat16* from, int stride, int count) {
#pragma unroll
    for (int e = 0; e < kRows * kPerRow; e += kBlockThreads) {
      const int unit = e + static_cast<int>(threadIdx.x);
      const int row = unit / kPerRow, col = unit % kPerRow * 8;
      const bool there = row < count;
      __pipeline_memcpy_async(at(row, col), from + (there ? row : 0) * stride + col, 16,
                              there ? 0 : 16);
    }
  }

  // Each number x of the first `count` rows becomes f(x, i) for its row i.
  template <typename F>
  __device__ __forceinline__ void transform(int count, const F& f) {
    struct alignas(16) Unit {
      uint32_t pair[4];
    };
#pragma unroll
    for (int e = 0; e < kRows * kPerRow; e += kBlockThreads) {
      const int index = e + static_cast<int>(threadIdx.x), row = index / kPerRow;
      if (row >= count) continue;
      Unit* const place = reinterpret_cast<Unit*>(at(row, index % kPerRow * 8));
      Unit unit = *place;
#pragma unroll
      for (uint32_t& pair : unit.pair)
        pair = to_bf16_pair(f(lower_bf16(pair), row), f(upper_bf16(pair), row));
      *place = unit;
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
  // As load_matrices().
  template <Along kAlong, int kVectors>
  __device__ __forceinline__ void load(uint32_t (&r)[4], int vector, int term) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, matrix = lane / 8, i = lane % 8;
    const int v = vector + ((matrix & kVectors) != 0 ? 8 : 0),
              t = term + ((matrix & (3 - kVectors)) != 0 ? 8 : 0);
    ldmatrix<kAlong == Along::tile>(r, kAlong == Along::tile ? at(t + i, v) : at(v + i, t));
  }
};

// to[i] = from[i] for i < count and 0 for the others, copied as a panel's rows are.
__device__ __forceinline__ void bring_numbers(float (&to)[kTile], const float* from, int count) {
  const int i = static_cast<int>(threadIdx.x);
  const bool there = i < count;
  if (i < kTile) __pipeline_memcpy_async(to + i, from + (there ? i : 0), 4, there ? 0 : 4);
}

// sums += a times 16 terms of `right` from `term` on, its columns from `col` on.
template <Along kRight, int kTiles, typename Right>
__device__ __forceinline__ void multiply_band(float (&sums)[kTiles][4], const uint32_t (&a)[4],
                                              const Right& right, int col, int term) {
#pragma unroll
  for (int t = 0; t < kTiles; t += 2) {
    uint32_t b[4];
    right.template right<kRight>(b, col + t * 8, term);
    mma_m16n8k16(sums[t], a, {b[0], b[1]});
    mma_m16n8k16(sums[t + 1], a, {b[2], b[3]});
  }
}

// sums[i][j] += sum_l left(row + i, l) right(col + j, l), l < kTerms.
template <int kTerms, Along kLeft, Along kRight, int kTiles, typename Left, typename Right>
__device__ __forceinline__ void product(float (&sums)[kTiles][4], const Left& left, int row,
                                        const Right& right, int col) {
#pragma unroll
  for (int term = 0; term < kTerms; term += 16) {
    uint32_t a[4];
    left.template left<kLeft>(a, row, term);
    multiply_band<kRight>(sums, a, right, col, term);
  }
}

// As product(), with the sums of an earlier product as the left factor, rounded to bf16.
template <Along kRight, int kTiles, int kLeftTiles, typename Right>
__device__ __forceinline__ void product_from_registers(float (&sums)[kTiles][4],
                                                       const float (&left)[kLeftTiles][4],
                                                       const Right& right, int col) {
#pragma unroll
  for (int t = 0; t < kLeftTiles; t += 2) {
    const uint32_t a[4] = {
        to_bf16_pair(left[t][0], left[t][1]), to_bf16_pair(left[t][2], left[t][3]),
        to_bf16_pair(left[t + 1][0], left[t + 1][1]), to_bf16_pair(left[t + 1][2], left[t + 1][3])};
    multiply_band<kRight>(sums, a, right, col, t * 8);
  }
}

// to[row + i][j] = sums[i][j] in those of the 16 rows that are below `count`, after finish(x, y,
// lower, row + i, j) for each pair of adjacent columns.
template <int kTiles, typename Finish>
__device__ __forceinline__ void write_rows(BFloat16* to, int stride, const float (&sums)[kTiles][4],
                                           int row, int count, const Finish& finish) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    const int i = row + lane / 4 + lower * 8;
    if (i >= count) continue;
    BFloat16* const of_row = to + i * stride + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      float x = sums[t][2 * lower], y = sums[t][2 * lower + 1];
      finish(x, y, lower, i, t * 8 + lane % 4 * 2);
      const uint32_t pair = to_bf16_pair(x, y);
      *reinterpret_cast<uint32_t*>(of_row + t * 8) = pair;
    }
  }
  __syncwarp();  // before the next product
}

}  // namespace linea::cuda

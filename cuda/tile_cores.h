// 64 x 64 tiles on tensor cores: factors in bf16, sums in float. The eight warps of a block split a
// tile into four bands of 16 rows by two halves of 32 columns; a warp computes its part as four
// products of 16 x 8.
#pragma once

#include "cuda/block.h"
#include "cuda/ptx.h"
#include "tensor/bfloat16.h"

namespace linea::cuda {

inline constexpr int kTile = 64;

// The direction in which a factor is contiguous in memory: neighboring threads request neighboring
// terms, or neighboring rows (columns).
enum class Along { terms, tile };

// Panels of the two factors: [vector][term] if contiguous along terms, else [term][vector]. Rows are
// padded by eight bf16 so that the eight rows of an ldmatrix matrix have no bank conflicts.
struct CorePanels {
  static constexpr int kDeep = 64, kRow = 64 + 8;
  static_assert(kDeep == kTile);
  alignas(16) BFloat16 left[kTile * kRow], right[kTile * kRow];
};

// Loads the terms from `first` on, 0 from `terms` on; two neighbors per write.
template <Along kAlong, typename At>
__device__ void load_panel(BFloat16* panel, int64_t first, int64_t terms, const At& at) {
  struct alignas(4) Two {
    BFloat16 x, y;
  };
  constexpr int kPairs = kTile / 2;
#pragma unroll 4
  for (int e = 0; e < kTile * kPairs; e += kBlockThreads) {
    const int index = e + static_cast<int>(threadIdx.x), row = index / kPairs,
              col = index % kPairs * 2;
    const auto element = [&](int c) {
      const int vector = kAlong == Along::terms ? row : c, term = kAlong == Along::terms ? c : row;
      return BFloat16(first + term < terms ? at(vector, first + term) : 0.0f);
    };
    *reinterpret_cast<Two*>(panel + row * CorePanels::kRow + col) = {element(col),
                                                                     element(col + 1)};
  }
}

// Loads four 8 x 8 matrices for a warp, from `vector` and `term` on. kVectors 1: the second matrix
// has the next eight vectors, the third the next eight terms, as for the left factor of an mma; 2:
// the reverse, as for two right factors.
template <Along kAlong, int kVectors>
__device__ void load_matrices(uint32_t (&r)[4], const BFloat16* panel, int vector, int term) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, matrix = lane / 8, i = lane % 8;
  const int next_vector = (matrix & kVectors) != 0 ? 8 : 0,
            next_term = (matrix & (3 - kVectors)) != 0 ? 8 : 0;
  constexpr bool kByTerm = kAlong == Along::tile;  // rows of the panel are terms
  const int row = kByTerm ? term + next_term + i : vector + next_vector + i;
  const int col = kByTerm ? vector + next_vector : term + next_term;
  ldmatrix<kByTerm>(r, panel + row * CorePanels::kRow + col);
}

// sums += left right^T over the first `terms` terms of the panels, which hold 0 beyond.
template <Along kLeft, Along kRight>
__device__ void multiply_panels(float (&sums)[16], int terms, const CorePanels& panels) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, row = warp / 2 * 16, col = warp % 2 * 32;
  for (int term = 0; term < terms; term += 16) {
    uint32_t a[4];
    load_matrices<kLeft, 1>(a, panels.left, row, term);
#pragma unroll
    for (int bh = 0; bh < 2; ++bh) {
      uint32_t b[4];
      load_matrices<kRight, 2>(b, panels.right, col + bh * 16, term);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const own = sums + (bh * 2 + half) * 4;
        float d[4] = {own[0], own[1], own[2], own[3]};
        const uint32_t of_half[2] = {b[half * 2], b[half * 2 + 1]};
        mma_m16n8k16(d, a, of_half);
#pragma unroll
        for (int e = 0; e < 4; ++e) own[e] = d[e];
      }
    }
  }
}

// The first row and column of a thread's 16 sums: that row and the eighth after it, in four pairs
// of columns.
__device__ inline int core_row() {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  return warp / 2 * 16 + lane / 4;
}
__device__ inline int core_col() {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  return warp % 2 * 32 + lane % 4 * 2;
}

// Calls body(e, row, column) for each sum.
template <typename Body>
__device__ void each_of_cores(const Body& body) {
  const int row = core_row(), col = core_col();
#pragma unroll
  for (int e = 0; e < 16; ++e) body(e, row + (e & 2) * 4, col + e / 4 * 8 + (e & 1));
}

}  // namespace linea::cuda

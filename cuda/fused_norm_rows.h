// Products of few rows of bf16, normalized on the fly: a block loads whole rows of x into shared
// memory, normalizes them there, and multiplies them by columns loaded in panels of 64 terms, two
// or two panels ahead. Tensor cores with float accumulators, as in cuda/tile_cores.h; the factors
// are the bits that layer_norm would store.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/ptx.h"
#include "cuda/row_norm.h"
#include "tensor/kernels.h"

namespace linea::cuda {

// x [rows,terms], and the norm before the product.
struct FusedNormRows {
  const BFloat16* x;
  NormWeights<BFloat16> norm;
  int64_t rows, terms;
};

inline constexpr int64_t kMaxFusedNorm = kLongestOfWarp;  // terms

// Tensors are copied to shared memory in units of 16 bytes.
inline constexpr int kOfCopy = 16 / sizeof(BFloat16);
inline bool lies_for_copies(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}
inline bool can_fuse_norm(const FusedNormRows& of, const BFloat16* w) {
  return of.terms > 0 && of.terms <= kMaxFusedNorm && of.terms % kOfCopy == 0 &&
         lies_for_copies(of.x) && lies_for_copies(w);
}

// A block's eight warps split its rows into bands of 16, and kColumns into groups; a warp computes
// products of 16 x 8.
struct FusedNormProduct {
  static constexpr int kBands = 4, kTiles = 4;
  static constexpr int kWarps = kBlockThreads / kWarp, kGroups = kWarps / kBands;
  static constexpr int kRows = 16 * kBands, kColumns = 8 * kGroups * kTiles;
  // Rows are padded by eight bf16 so that the eight rows of an ldmatrix matrix have no bank
  // conflicts.
  static constexpr int kDeep = 64, kRow = kDeep + 8;
  static constexpr int kStages = 3;  // panels in shared memory

  static __host__ __device__ int panels(int64_t terms) {
    return static_cast<int>((terms + kDeep - 1) / kDeep);
  }
  static __host__ __device__ int row_of(int64_t terms) { return panels(terms) * kDeep + 8; }
  static __host__ __device__ size_t row_elements(int64_t terms) {
    return static_cast<size_t>(kRows * row_of(terms));
  }
  static constexpr size_t kPanelElements = static_cast<size_t>(kStages) * kColumns * kRow;
  static size_t bytes(int64_t terms) {
    return shared_bytes<BFloat16>(row_elements(terms)) + shared_bytes<BFloat16>(kPanelElements);
  }

  float sums[kTiles][4] = {};

  // Copies kCount units of 16 bytes of each of kLines rows; 0 from `terms` on and for null rows.
  // line(i): row i.
  template <typename Line>
  __device__ static void copy(BFloat16* to, int lines, int row, int first, int count, int64_t terms,
                              const Line& line) {
    for (int e = static_cast<int>(threadIdx.x); e < lines * count; e += kBlockThreads) {
      const int i = e / count, term = first + e % count * kOfCopy;
      const BFloat16* const from = line(i);
      const bool there = from != nullptr && term < terms;
      __pipeline_memcpy_async(to + i * row + e % count * kOfCopy, there ? from + term : line(0), 16,
                              there ? 0 : 16);
    }
  }

  // Sums of the rows from `first` on with the columns whose weights are column(c): null if absent,
  // but never for column 0. Every thread of the block calls it.
  template <typename Column>
  __device__ void multiply(const FusedNormRows& of, int64_t first, const Column& column,
                           SharedMemory& memory) {
    BFloat16* const rows = memory.take<BFloat16>(row_elements(of.terms));
    BFloat16* const ring = memory.take<BFloat16>(kPanelElements);
    const int count = panels(of.terms), row = row_of(of.terms);
    const auto bring = [&](int panel) {
      BFloat16* const to = ring + panel % kStages * kColumns * kRow;
      if (panel < count) copy(to, kColumns, kRow, panel * kDeep, kDeep / kOfCopy, of.terms, column);
      __pipeline_commit();
    };
    copy(rows, kRows, row, 0, count * kDeep / kOfCopy, of.terms,
         [&](int i) { return first + i < of.rows ? of.x + (first + i) * of.terms : nullptr; });
    for (int panel = 0; panel < kStages - 1; ++panel) bring(panel);
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    norm(of, rows, row);
    for (int panel = 0; panel < count; ++panel) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();  // this panel has been copied, and the previous one read
      bring(panel + kStages - 1);
      add_panel(rows + panel * kDeep, row, ring + panel % kStages * kColumns * kRow);
    }
    __syncthreads();
  }

  // Calls body(row, column, sums[..]) for each pair of adjacent columns of the thread's sums.
  template <typename Body>
  __device__ void each_pair(const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        body(band() * 16 + half * 8 + lane / 4, first_column(t) + lane % 4 * 2, sums[t] + half * 2);
  }

 private:
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  __device__ static int band() { return warp() % kBands; }
  __device__ static int first_column(int tile) { return (warp() / kBands * kTiles + tile) * 8; }

  __device__ static void norm(const FusedNormRows& of, BFloat16* rows, int row) {
    const WarpTeam team;
    for (int i = warp(); i < kRows; i += kWarps) {
      BFloat16* const x = rows + i * row;
      const auto norm =
          RowNorm<float>::of(team, of.terms, [&](int64_t c) { return static_cast<float>(x[c]); });
      __syncwarp();
      for (int64_t c = team.rank(); c < of.terms; c += kWarp)
        x[c] = BFloat16(norm.of_element(x[c], of.norm.weight[c],
                                        of.norm.bias == nullptr ? 0.0f : of.norm.bias[c]));
    }
  }

  // sums += rows columns^T over the terms of a panel.
  __device__ void add_panel(const BFloat16* rows, int row, const BFloat16* columns) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, matrix = lane / 8, i = lane % 8;
#pragma unroll
    for (int term = 0; term < kDeep; term += 32) {
      uint32_t a[2][4];
#pragma unroll
      for (int step = 0; step < 2; ++step)
        ldmatrix<false>(a[step], rows + (band() * 16 + matrix % 2 * 8 + i) * row + term +
                                     step * 16 + matrix / 2 * 8);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        uint32_t b[4];  // eight more terms in each matrix
        ldmatrix<false>(b, columns + (first_column(t) + i) * kRow + term + matrix * 8);
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const uint32_t of_step[2] = {b[step * 2], b[step * 2 + 1]};
          mma_m16n8k16(sums[t], a[step], of_step);
        }
      }
    }
  }
};

}  // namespace linea::cuda

// Teams: the threads that process a row together, a warp for short rows and a block for long ones.
#pragma once

#include <algorithm>

#include "cuda/block.h"

namespace linea::cuda {

// Reductions that every team inherits, given its reduce().
template <typename Team>
struct TeamSums {
  template <typename T>
  __device__ T sum(T x) const {
    return static_cast<const Team*>(this)->reduce(x, Sum{});
  }
  template <typename T>
  __device__ T max(T x) const {
    return static_cast<const Team*>(this)->reduce(x, Largest{});
  }
};

struct WarpTeam : TeamSums<WarpTeam> {
  static constexpr int kThreads = kWarp;
  __device__ int rank() const { return static_cast<int>(threadIdx.x) % kWarp; }
  template <typename T, typename Op>
  __device__ T reduce(T x, Op op) const {
    return warp_reduce(x, op);
  }
  // Makes shared-memory writes of the team's other threads visible.
  __device__ void sync() const { __syncwarp(); }
};

struct BlockTeam : TeamSums<BlockTeam> {
  static constexpr int kThreads = kBlockThreads;
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  template <typename T, typename Op>
  __device__ T reduce(T x, Op op) const {
    return block_reduce(x, op);
  }
  __device__ void sync() const { __syncthreads(); }
};

// The longest row that a single warp processes.
inline constexpr int64_t kLongestOfWarp = 1024;

// The grid of a kernel whose blocks loop over `count` tiles; about as many blocks as a large GPU
// holds.
inline dim3 grid_of_tiles(int64_t count) {
  constexpr int64_t kMaxTiles = 1024;
  return dim3(static_cast<unsigned>(count < kMaxTiles ? count : kMaxTiles));
}

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads, 1) warp_rows_kernel(int64_t rows, Body body) {
  constexpr int64_t kWarps = kBlockThreads / kWarp;
  for (int64_t r = blockIdx.x * kWarps + threadIdx.x / kWarp; r < rows; r += gridDim.x * kWarps)
    body(WarpTeam{}, r);
}

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads, 1) block_rows_kernel(int64_t rows, Body body) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) body(BlockTeam{}, r);
}

// Calls body(team, r) for every row r < rows of `columns` elements; all threads of the team run it
// together. The body is a struct or an extended lambda ([=] __device__(auto team, int64_t r)).
template <typename Body>
void for_each_team(const Context& ctx, int64_t rows, int64_t columns, const Body& body) {
  if (rows <= 0) return;
  const bool warps = columns <= kLongestOfWarp;
  const int64_t each = warps ? kBlockThreads / kWarp : 1;
  const int64_t blocks = (rows + each - 1) / each;
  launch(warps ? warp_rows_kernel<Body> : block_rows_kernel<Body>,
         dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
         dim3(kBlockThreads), 0, stream(ctx), rows, body);
}

// A body of for_each_team from an elementwise one: body(r, c). A team has a piece of a row, as there
// may be few rows, and long ones.
template <typename Body>
struct EachColumn {
  int64_t columns, pieces;  // of a row
  Body body;
  template <typename Team>
  __device__ void operator()(Team team, int64_t piece) const {
    const int64_t r = piece / pieces, first = piece % pieces * kLongestOfWarp;
    const int64_t end = first + kLongestOfWarp < columns ? first + kLongestOfWarp : columns;
    for (int64_t c = first + team.rank(); c < end; c += Team::kThreads) body(r, c);
  }
};
template <typename Body>
void for_each_column(const Context& ctx, int64_t rows, int64_t columns, const Body& body) {
  const int64_t pieces = (columns + kLongestOfWarp - 1) / kLongestOfWarp;
  for_each_team(ctx, rows * pieces, std::min(columns, kLongestOfWarp),
                EachColumn<Body>{columns, pieces, body});
}

}  // namespace linea::cuda

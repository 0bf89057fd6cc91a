// Teams: the threads that process a row together, a warp for short rows and a block for long ones.
#pragma once

#include <algorithm>

#include "cuda/block.h"
#include "tensor/formulas.h"

namespace linea::cuda {

// Reductions that every team inherits, given its reduce() and rank().
template <typename Team>
struct TeamSums {
  template <typename T>
  __device__ T sum(T x) const {
    return self().reduce(x, Sum{});
  }
  template <typename T>
  __device__ T max(T x) const {
    return self().reduce(x, Largest{});
  }
  // The sum and the maximum of x(c), c < count.
  template <typename X>
  __device__ auto sum_of(int64_t count, const X& x) const {
    decltype(x(count)) total = 0;
    for (int64_t c = self().rank(); c < count; c += Team::kThreads) total += x(c);
    return sum(total);
  }
  template <typename X>
  __device__ auto max_of(int64_t count, const X& x) const {
    auto largest = kNothing<decltype(x(count))>;
    for (int64_t c = self().rank(); c < count; c += Team::kThreads)
      largest = Largest{}(largest, x(c));
    return max(largest);
  }

 private:
  __device__ const Team& self() const { return *static_cast<const Team*>(this); }
};

struct WarpTeam : TeamSums<WarpTeam> {
  static constexpr int kThreads = kWarp;
  __device__ int rank() const { return own_lane(); }
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
inline dim3 grid_of_tiles(int64_t count) { return grid_of(std::min(count, int64_t{1024})); }

template <typename Team, typename Body>
__global__ void __launch_bounds__(kBlockThreads, 1) each_team_kernel(int64_t rows, Body body) {
  constexpr int kTeams = kBlockThreads / Team::kThreads;
  for (int64_t r = blockIdx.x * kTeams + threadIdx.x / Team::kThreads; r < rows;
       r += gridDim.x * kTeams)
    body(Team{}, r);
}

// Calls body(team, r) for every row r < rows of `columns` elements; all threads of the team run it
// together. The body is a struct or an extended lambda ([=] __device__(auto team, int64_t r)).
template <typename Body>
void for_each_team(const Context& ctx, int64_t rows, int64_t columns, const Body& body) {
  if (rows <= 0) return;
  const bool warps = columns <= kLongestOfWarp;
  const int64_t each = warps ? kBlockWarps : 1;
  const int64_t blocks = (rows + each - 1) / each;
  launch_blocks(ctx, grid_of(std::min(blocks, kMaxBlocks)),
                warps ? each_team_kernel<WarpTeam, Body> : each_team_kernel<BlockTeam, Body>, rows,
                body);
}

// Calls body(r, c) for all elements. A team has a piece of a row, as there may be few rows, and long
// ones.
template <typename Body>
void for_each_column(const Context& ctx, int64_t rows, int64_t columns, const Body& body) {
  const int64_t pieces = (columns + kLongestOfWarp - 1) / kLongestOfWarp;
  for_each_team(ctx, rows * pieces, std::min(columns, kLongestOfWarp),
                [=] __device__(auto team, int64_t piece) {
                  const int64_t r = piece / pieces, first = piece % pieces * kLongestOfWarp;
                  const int64_t end = std::min(first + kLongestOfWarp, columns);
                  for (int64_t c = first + team.rank(); c < end; c += team.kThreads) body(r, c);
                });
}

}  // namespace linea::cuda

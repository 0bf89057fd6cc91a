// Rows that are computed element by element and by sums over a row, eight neighboring elements a
// thread at a time. A short row has some lanes of a warp, a long one a block.
#pragma once

#include <cmath>

#include "cuda/elements.h"
#include "cuda/team.h"

namespace linea::cuda {

// blockDim.x lanes, 2^n; a block has blockDim.y such teams.
struct LanesTeam : TeamSums<LanesTeam> {
  template <typename T, typename Op>
  __device__ T reduce(T x, Op op) const {
    return warp_reduce(x, op, static_cast<int>(blockDim.x));
  }
};

// A team of blockDim.x threads and its row. Teams beyond the last row take part in reductions, with -1
// columns.
template <typename Team, int kWidth>
struct WideRow : Team {
  int columns;

  __device__ explicit WideRow(int all) : columns(all) {}
  __device__ bool leads() const { return threadIdx.x == 0 && columns >= 0; }

  // each_of_group() for the thread's elements of rows that begin at these addresses.
  template <typename F, typename... T>
  __device__ __forceinline__ void each(const F& f, T*... x) const {
#pragma unroll(kWidth > 1 ? 1 : 4)
    for (int c = static_cast<int>(threadIdx.x) * kWidth; c < columns;
         c += static_cast<int>(blockDim.x) * kWidth)
      each_of_group<kWidth>(f, (x + c)...);
  }
  // The sum of term(x_c, ...) over the row, and the largest x_c.
  template <typename Term, typename... T>
  __device__ __forceinline__ auto total(const Term& term, const T*... x) const {
    decltype(term(Accumulator<T>()...)) sum = 0;
    each([&](Accumulator<T>... element) { sum += term(element...); }, x...);
    return this->sum(sum);
  }
  template <typename T>
  __device__ Accumulator<T> largest(const T* x) const {
    auto found = kNothing<Accumulator<T>>;
    each([&](Accumulator<T> element) { found = Largest{}(found, element); }, x);
    return this->max(found);
  }
};

// 1 / sqrt(sum / count + epsilon), for results of type T.
template <typename T, typename A = Accumulator<T>>
__device__ A inverse_root(A sum, A count, double epsilon) {
  return A(1) / std::sqrt(MathFor<T>::quotient(sum, count) + static_cast<A>(epsilon));
}

template <typename Row, typename Body>
__global__ void __launch_bounds__(kBlockThreads, 1)
    wide_rows_kernel(int64_t rows, int columns, Body body) {
  const int64_t teams = blockDim.y;
  for (int64_t first = blockIdx.x * teams; first < rows; first += gridDim.x * teams) {
    const int64_t r = first + threadIdx.y;
    body(Row(r < rows ? columns : -1), r < rows ? r : first);
  }
}

// Calls body(row, r) for every row r < rows of `columns` elements, by groups of eight where the rows
// are `aligned` and whole groups. The body is an extended lambda ([=] __device__(auto row, int64_t
// r)) that accesses its row by `row` alone, and writes what is made of it where row.leads().
template <typename Body>
void for_each_wide_row(const Context& ctx, int64_t rows, int64_t columns, bool aligned,
                       const Body& body) {
  if (rows <= 0) return;
  const bool wide = aligned && columns % kGroup == 0, lanes = columns <= kLongestOfWarp;
  const int64_t width = wide ? kGroup : 1;
  int threads = lanes ? kWarp : kBlockThreads;
  while (lanes && threads > 1 && threads / 2 * width >= columns) threads /= 2;
  const auto start = [&](auto row_of_lanes, auto row_of_block) {
    const int64_t teams = kBlockThreads / threads, blocks = (rows + teams - 1) / teams;
    launch(lanes ? wide_rows_kernel<decltype(row_of_lanes), Body>
                 : wide_rows_kernel<decltype(row_of_block), Body>,
           grid_of(std::min(blocks, kMaxBlocks)),
           dim3(static_cast<unsigned>(threads), static_cast<unsigned>(teams)), 0, stream(ctx), rows,
           static_cast<int>(columns), body);
  };
  if (wide)
    start(WideRow<LanesTeam, kGroup>(0), WideRow<BlockTeam, kGroup>(0));
  else
    start(WideRow<LanesTeam, 1>(0), WideRow<BlockTeam, 1>(0));
}

}  // namespace linea::cuda

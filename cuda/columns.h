// Column sums of matrices. The rows are split into slices that depend only on their number; each
// slice is summed by one block, and the slices are added in order, so that results are reproducible
// bit by bit.
#pragma once

#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {

inline constexpr int kTileColumns = 32;
inline constexpr int kTileRows = kBlockThreads / kTileColumns;
inline constexpr int64_t kSliceRows = 128, kMaxSlices = 64;

// P matrices [R,C]; each element contributes to kSums sums.
struct ColumnShape {
  int64_t P, R, C;
  LINEA_HOST_DEVICE int64_t slices() const {
    const int64_t wanted = (R + kSliceRows - 1) / kSliceRows;
    return wanted < 1 ? 1 : wanted < kMaxSlices ? wanted : kMaxSlices;
  }
};

// partial [slices,P,kSums,C]; add(p, r, c, totals) adds an element's kSums terms to totals.
template <int kSums, typename A, typename Add>
__global__ void __launch_bounds__(kBlockThreads)
    column_slices_kernel(ColumnShape shape, A* partial, Add add) {
  __shared__ A part[kSums][kTileRows][kTileColumns];
  const int column = static_cast<int>(threadIdx.x) % kTileColumns,
            row = static_cast<int>(threadIdx.x) / kTileColumns;
  const int64_t slices = shape.slices(), tiles = (shape.C + kTileColumns - 1) / kTileColumns;
  for (int64_t item = blockIdx.x; item < shape.P * slices * tiles; item += gridDim.x) {
    const int64_t c = item % tiles * kTileColumns + column, slice = item / tiles % slices,
                  p = item / tiles / slices;
    const int64_t end = shape.R * (slice + 1) / slices;
    A totals[kSums] = {};
    if (c < shape.C)
      for (int64_t r = shape.R * slice / slices + row; r < end; r += kTileRows)
        add(p, r, c, totals);
#pragma unroll
    for (int n = 0; n < kSums; ++n) part[n][row][column] = totals[n];
    __syncthreads();
    if (row < kSums && c < shape.C) {
      A total = part[row][0][column];
      for (int other = 1; other < kTileRows; ++other) total += part[row][other][column];
      partial[((slice * shape.P + p) * kSums + row) * shape.C + c] = total;
    }
    __syncthreads();  // the next item reuses part
  }
}

template <int kSums, typename A, typename Finish>
struct SumOfSlices {
  ColumnShape shape;
  const A* partial;
  Finish finish;
  __device__ void operator()(int64_t i) const {
    const int64_t p = i / shape.C, c = i % shape.C;
    A totals[kSums] = {};
    for (int64_t slice = 0; slice < shape.slices(); ++slice)
#pragma unroll
      for (int n = 0; n < kSums; ++n)
        totals[n] += partial[((slice * shape.P + p) * kSums + n) * shape.C + c];
    finish(p, c, totals);
  }
};

// Calls finish(p, c, totals) once for each column of each matrix, with the sums over its R rows of
// the terms of add(p, r, c, totals).
template <int kSums, typename A, typename Add, typename Finish>
void sum_columns(const Context& ctx, const ColumnShape& shape, const Add& add,
                 const Finish& finish) {
  static_assert(kSums <= kTileRows);
  if (shape.P * shape.C == 0) return;
  const int64_t slices = shape.slices(), tiles = (shape.C + kTileColumns - 1) / kTileColumns;
  const Workspace<A> partial(ctx, slices * shape.P * kSums * shape.C);
  const int64_t blocks = shape.P * slices * tiles;
  launch(column_slices_kernel<kSums, A, Add>, grid_of_tiles(blocks), dim3(kBlockThreads), 0,
         stream(ctx), shape, partial.data(), add);
  for_each(ctx, shape.P * shape.C, SumOfSlices<kSums, A, Finish>{shape, partial.data(), finish});
}

}  // namespace linea::cuda

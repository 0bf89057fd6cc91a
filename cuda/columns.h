// Column sums of matrices. The rows are split into slices that depend only on their number; each
// slice is summed by one block, and the slices are added in order, so that results are reproducible
// bit by bit.
#pragma once

#include "cuda/elements.h"
#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {

inline constexpr int kTileRows = kBlockThreads / kWarp;
inline constexpr int64_t kSliceRows = 128, kMaxSlices = 128;

// P matrices [R,C]; each element contributes to kSums sums.
struct ColumnShape {
  int64_t P, R, C;
  LINEA_HOST_DEVICE int64_t slices() const {
    const int64_t wanted = (R + kSliceRows - 1) / kSliceRows;
    return wanted < 1 ? 1 : wanted < kMaxSlices ? wanted : kMaxSlices;
  }
};

// partial [slices,P,kSums,C]; add(width, p, r, c, totals) adds the terms of kWidth columns from c on to
// totals [kSums,kWidth].
template <int kSums, int kWidth, typename A, typename Add>
__global__ void __launch_bounds__(kBlockThreads)
    column_slices_kernel(ColumnShape shape, A* partial, Add add) {
  constexpr int kTotals = kSums * kWidth;  // of a thread
  constexpr int64_t kTileColumns = kWarp * kWidth;
  __shared__ A part[kTotals][kTileRows][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            row = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t slices = shape.slices(), tiles = (shape.C + kTileColumns - 1) / kTileColumns;
  for (int64_t item = blockIdx.x; item < shape.P * slices * tiles; item += gridDim.x) {
    const int64_t c = item % tiles * kTileColumns + lane * kWidth, slice = item / tiles % slices,
                  p = item / tiles / slices;
    const int64_t end = shape.R * (slice + 1) / slices;
    A totals[kTotals] = {};
    if (c < shape.C)
#pragma unroll 4  // rows that are requested together
      for (int64_t r = shape.R * slice / slices + row; r < end; r += kTileRows)
        add(std::integral_constant<int, kWidth>(), p, r, c, totals);
#pragma unroll
    for (int n = 0; n < kTotals; ++n) part[n][row][lane] = totals[n];
    __syncthreads();
    for (int n = row; n < kTotals && c < shape.C; n += kTileRows) {
      A total = part[n][0][lane];
      for (int other = 1; other < kTileRows; ++other) total += part[n][other][lane];
      partial[((slice * shape.P + p) * kSums + n / kWidth) * shape.C + c + n % kWidth] = total;
    }
    __syncthreads();  // the next item reuses part
  }
}

// Calls finish(p, c, totals) once for each column of each matrix, with the sums over its R rows of
// the terms of add(width, p, r, c, totals). width: the columns of 16 bytes of T where all rows that
// add reads are wide, else one.
template <int kSums, typename T, typename Add, typename Finish>
void sum_columns(const Context& ctx, const ColumnShape& shape, bool wide, const Add& add,
                 const Finish& finish) {
  using A = Accumulator<T>;
  if (shape.P * shape.C == 0) return;
  const int64_t slices = shape.slices(), columns = kWarp * (wide ? kWideOf<T> : 1);
  const Workspace<A> sums_of_slices(ctx, slices * shape.P * kSums * shape.C);
  A* const partial = sums_of_slices.data();
  launch(wide ? column_slices_kernel<kSums, kWideOf<T>, A, Add>
              : column_slices_kernel<kSums, 1, A, Add>,
         grid_of_tiles(shape.P * slices * ((shape.C + columns - 1) / columns)), dim3(kBlockThreads),
         0, stream(ctx), shape, partial, add);
  for_each(ctx, shape.P * shape.C, [=] __device__(int64_t i) {
    const int64_t p = i / shape.C, c = i % shape.C;
    A totals[kSums] = {};
#pragma unroll 8
    for (int64_t slice = 0; slice < slices; ++slice)
#pragma unroll
      for (int n = 0; n < kSums; ++n)
        totals[n] += partial[((slice * shape.P + p) * kSums + n) * shape.C + c];
    finish(p, c, totals);
  });
}

// Calls finish(p, c, total) with the sum of x[p,r,c] over r; x is [P,R,C].
template <typename T, typename Finish>
void sum_columns_of(const Context& ctx, const ColumnShape& shape, const T* x,
                    const Finish& finish) {
  sum_columns<1, T>(
      ctx, shape, rows_are_wide<T>(shape.C, {x}),
      [=] __device__(auto width, int64_t p, int64_t r, int64_t c, Accumulator<T>* total) {
        const auto row = load_elements<T, width>(x + (p * shape.R + r) * shape.C + c);
        for (int e = 0; e < width; ++e) total[e] += row.at(e);
      },
      finish);
}

}  // namespace linea::cuda

// Sums of rows by bin, without atomics: a block owns one bin and some columns and scans the rows'
// bins in order, so that results are reproducible bit by bit.
#pragma once

#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {

// `groups` groups of rows, each with `bins` sums of C elements.
struct ScatterShape {
  int64_t groups, rows, bins, C;  // rows: of the largest group

  // Long groups are split into slices; their number depends only on the sizes, and is limited by
  // memory for kMaxSums sums per column.
  LINEA_HOST_DEVICE int64_t slices() const {
    constexpr int64_t kMinRows = 512, kMaxSums = 16384;
    const int64_t wanted = (rows + kMinRows - 1) / kMinRows, fit = kMaxSums / (groups * bins);
    const int64_t min = wanted < fit ? wanted : fit;
    return min < 1 ? 1 : min;
  }
};

// Source describes the rows:
//   count(g)       number of rows of group g
//   bin(g, i)      the bin of its row i
//   value(g, i, c)
// partial [slices,groups,bins,C]
template <typename A, typename Source>
__global__ void __launch_bounds__(kBlockThreads)
    scatter_kernel(ScatterShape shape, A* partial, Source source) {
  constexpr int kWarps = kBlockThreads / kWarp;
  __shared__ unsigned running[kWarps];  // one bit per row of the next kBlockThreads
  const int64_t slices = shape.slices(), tiles = (shape.C + kBlockThreads - 1) / kBlockThreads;
  for (int64_t item = blockIdx.x; item < slices * shape.groups * shape.bins * tiles;
       item += gridDim.x) {
    const int64_t tile = item % tiles, sum = item / tiles;  // sum: [slice,group,bin]
    const int64_t bin = sum % shape.bins, group = sum / shape.bins % shape.groups;
    const int64_t slice = sum / shape.bins / shape.groups, c = tile * kBlockThreads + threadIdx.x;
    const int64_t count = source.count(group), end = count * (slice + 1) / slices;
    A total = 0;
    for (int64_t first = count * slice / slices; first < end; first += kBlockThreads) {
      const int64_t i = first + threadIdx.x;
      const unsigned lanes = __ballot_sync(kWholeWarp, i < end && source.bin(group, i) == bin);
      if (threadIdx.x % kWarp == 0) running[threadIdx.x / kWarp] = lanes;
      __syncthreads();
      for (int warp = 0; warp < kWarps && c < shape.C; ++warp)
        for (unsigned left = running[warp]; left != 0; left &= left - 1)
          total += source.value(group, first + warp * kWarp + __ffs(static_cast<int>(left)) - 1, c);
      __syncthreads();  // the next iteration reuses running
    }
    if (c < shape.C) partial[sum * shape.C + c] = total;
  }
}

template <typename A, typename Finish>
struct SumOfScattered {
  ScatterShape shape;
  const A* partial;
  Finish finish;
  __device__ void operator()(int64_t i) const {
    const int64_t each = shape.groups * shape.bins * shape.C;
    A total = 0;
    for (int64_t slice = 0; slice < shape.slices(); ++slice) total += partial[slice * each + i];
    finish(i / shape.C, i % shape.C, total);
  }
};

// Calls finish(group bins + bin, c, total) once for each sum.
template <typename A, typename Source, typename Finish>
void scatter_sums(const Context& ctx, const ScatterShape& shape, const Source& source,
                  const Finish& finish) {
  const int64_t sums = shape.groups * shape.bins;
  if (sums * shape.C == 0) return;
  const Workspace<A> partial(ctx, shape.slices() * sums * shape.C);
  const int64_t blocks = shape.slices() * sums * ((shape.C + kBlockThreads - 1) / kBlockThreads);
  launch(scatter_kernel<A, Source>, grid_of_tiles(blocks), dim3(kBlockThreads), 0, stream(ctx),
         shape, partial.data(), source);
  for_each(ctx, sums * shape.C, SumOfScattered<A, Finish>{shape, partial.data(), finish});
}

}  // namespace linea::cuda

// Grids of kernels: one thread per element, one warp or one block per row.
#pragma once

#include <cstdint>

#include "cuda/queue.h"

namespace linea::cuda {

inline constexpr int kBlockThreads = 256;
// The size limit of a grid; its threads process further elements in a grid-stride loop.
inline constexpr int64_t kMaxBlocks = 1 << 16;

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads) each_kernel(int64_t n, Body body) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kBlockThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < n;
       i += stride)
    body(i);
}

// Calls body(i) for every i < n, one thread each; body is a struct or an extended lambda ([=]
// __device__ (int64_t i)).
template <typename Body>
void for_each(const Context& ctx, int64_t n, const Body& body) {
  if (n <= 0) return;
  const int64_t blocks = (n + kBlockThreads - 1) / kBlockThreads;
  launch(each_kernel<Body>, dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
         dim3(kBlockThreads), 0, stream(ctx), n, body);
}

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads) rows_kernel(int64_t rows, Body body) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) body(r);
}

// Calls body(r) for every row r < rows, one block of kBlockThreads threads each. All threads of the
// block run it together, so it may use block_sum and the other reductions of cuda/block.h.
template <typename Body>
void for_each_row(const Context& ctx, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  launch(rows_kernel<Body>, dim3(static_cast<unsigned>(rows < kMaxBlocks ? rows : kMaxBlocks)),
         dim3(kBlockThreads), 0, stream(ctx), rows, body);
}

}  // namespace linea::cuda

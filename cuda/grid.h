// Grids of kernels: one thread per element, one warp or one block per row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/queue.h"

namespace linea::cuda {

inline constexpr int kBlockThreads = 256;
// The size limit of a grid; its threads process further elements in a grid-stride loop.
inline constexpr int64_t kMaxBlocks = 1 << 16;

inline dim3 grid_of(int64_t x, int64_t y = 1, int64_t z = 1) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

// Launches `kernel` on a grid of blocks of kBlockThreads.
template <typename... Params>
void launch_blocks(const Context& ctx, dim3 grid, void (*kernel)(Params...),
                   std::type_identity_t<Params>... arguments) {
  launch(kernel, grid, dim3(kBlockThreads), 0, stream(ctx), arguments...);
}

// Launches kKernel on a grid of blocks, each with one Shared in dynamic shared memory.
template <auto kKernel, typename Shared, int kThreads = kBlockThreads, typename... Arguments>
void launch_with(const Context& ctx, dim3 grid, const Arguments&... arguments) {
  constexpr int kBytes = static_cast<int>(shared_bytes<Shared>(1));
  static bool allowed = false;  // more than 48 KiB
  if (!allowed)
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kKernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "setting a kernel's shared memory limit");
  allowed = true;
  launch(kKernel, grid, dim3(kThreads), kBytes, stream(ctx), arguments...);
}

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
  launch_blocks(ctx, grid_of(std::min(blocks, kMaxBlocks)), each_kernel<Body>, n, body);
}

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads) rows_kernel(int64_t rows, Body body) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) body(r);
}

// Calls body(r) for every row r < rows, one block of kBlockThreads threads each. All threads of the
// block run it together, so it may use the reductions of cuda/block.h.
template <typename Body>
void for_each_row(const Context& ctx, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  launch_blocks(ctx, grid_of(std::min(rows, kMaxBlocks)), rows_kernel<Body>, rows, body);
}

}  // namespace linea::cuda

// Shared by the kernels of the delta rule: a block's shared memory, and the triangular system of a
// chunk.
#pragma once

#include "cuda/chunk.h"

namespace linea::cuda {

template <typename A>
using SquareRows = A (*)[kTile + 1];

// A block's shared memory: the panels of products and two matrices.
template <typename A>
struct Shared {
  Panels<A>* panels;
  SquareRows<A> pairs, columns;  // positions x positions, positions x columns
  __device__ static Shared take(FloatProducts products) {
    SharedMemory memory;
    Shared shared;
    shared.panels = memory.take<Panels<A>>(1);
    multiply_as(products, *shared.panels);
    shared.pairs = reinterpret_cast<SquareRows<A>>(memory.take<A>(kTile * (kTile + 1)));
    shared.columns = reinterpret_cast<SquareRows<A>>(memory.take<A>(kTile * (kTile + 1)));
    return shared;
  }
};
template <typename A>
constexpr size_t shared_bytes() {
  const auto whole = [](size_t bytes) { return (bytes + 127) / 128 * 128; };
  return whole(sizeof(Panels<A>)) + 2 * whole(sizeof(Square<A>));
}

template <typename A, class... P, class... Arguments>
void launch_large(Context& ctx, void (*kernel)(P...), dim3 grid, const Arguments&... arguments) {
  check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes<A>())),
             "setting a kernel's shared memory limit");
  launch(kernel, grid, dim3(kBlockThreads), shared_bytes<A>(), stream(ctx), arguments...);
}

// x = (I + strictly_lower(l))^-1 x, or with the transposed inverse, for `count` rows of 64 columns.
// All threads call it.
template <typename A>
__device__ void solve(bool transpose, int count, SquareRows<A> l, SquareRows<A> x) {
  constexpr int kShares = kBlockThreads / kTile;
  const int m = static_cast<int>(threadIdx.x) % kTile,
            share = static_cast<int>(threadIdx.x) / kTile;
  __syncthreads();
  for (int n = 0; n < count; ++n) {
    const int j = transpose ? count - 1 - n : n;
    const A known = x[j][m];
    if (transpose) {
      for (int i = share; i < j; i += kShares) x[i][m] -= l[j][i] * known;
    } else {
      for (int i = j + 1 + share; i < count; i += kShares) x[i][m] -= l[i][j] * known;
    }
    __syncthreads();
  }
}

// Rows of [S,width] of one (batch, head), from the first of a chunk.
template <typename T>
struct ChunkOf {
  using A = Accumulator<T>;
  const T* data;
  int64_t width;
  int count;
  __device__ A at(int i, int64_t f) const {
    return i < count && f < width ? A(data[i * width + f]) : A(0);
  }
};

inline unsigned blocks(int64_t count) { return static_cast<unsigned>(count); }

}  // namespace linea::cuda

// Shared by the kernels of the delta rule: a block's shared memory, the triangular system of a chunk,
// and the inputs of a chunk with the decays of the state. Formulas: tensor/cpu/delta.cpp.
#pragma once

#include "cuda/chunk.h"
#include "cuda/team.h"

namespace linea::cuda {

// A block's shared memory: two matrices, positions x positions and positions x columns.
template <typename T>
struct DeltaShared {
  Panels<T> panels;
  Square<T> pairs, columns;
  __device__ static DeltaShared& take(FloatProducts products) {
    SharedMemory memory;
    DeltaShared& shared = *memory.take<DeltaShared>(1);
    multiply_as(products, shared.panels);
    return shared;
  }
};

// x = (I + strictly_lower(l))^-1 x, or with the transposed inverse, for `count` rows of 64 columns.
// All threads call it.
template <typename T>
__device__ void solve(bool transpose, int count, const Square<T>& l, Square<T>& x) {
  constexpr int kShares = kBlockThreads / kTile;
  const int m = static_cast<int>(threadIdx.x) % kTile,
            share = static_cast<int>(threadIdx.x) / kTile;
  __syncthreads();
  for (int n = 0; n < count; ++n) {
    const int j = transpose ? count - 1 - n : n;
    const T known = x[j][m];
    if (transpose) {
      for (int i = share; i < j; i += kShares) x[i][m] -= l[j][i] * known;
    } else {
      for (int i = j + 1 + share; i < count; i += kShares) x[i][m] -= l[i][j] * known;
    }
    __syncthreads();
  }
}

// The inputs of a chunk. L: the sums of log decays from its start on; null: 0.
template <typename T>
struct DeltaChunk {
  TileRows<T> q, k, v, dy;
  const T *beta, *L;
  int rows;

  __device__ T beta_at(int i) const { return i < k.count ? beta[i] : T(0); }
  // exp(L_i), exp(L_C - L_i), exp(L_i - L_j) and exp(L_C) state; 1 past the rows.
  __device__ T from_start(int i) const { return L == nullptr || i >= rows ? T(1) : exp_of(L[i]); }
  __device__ T to_end(int i) const { return pair(rows - 1, i); }
  __device__ T pair(int i, int j) const {
    return L == nullptr || i >= rows || j > i ? T(1) : exp_of(L[i] - L[j]);
  }
  __device__ T decayed(T state) const {
    return L == nullptr ? state : state * from_start(rows - 1);
  }
};

template <typename T>
struct DeltaInputs {
  DeltaInput<T> in;
  Strided<const T> dy, L;

  __device__ DeltaChunk<T> of(const ChunkShape& shape, const Chunk& chunk) const {
    const int64_t S = shape.length, F = shape.features, M = shape.values;
    const auto rows = [&](const Strided<const T>& x, int64_t width, int count) {
      return tile_rows(HeadRows<const T>{x.data, x.stride, 0, width}, chunk.bh, chunk.first, count,
                       width);
    };
    return {rows({in.q, S * F}, F, chunk.rows),
            rows({in.k, S * F}, F, chunk.keys),
            rows(in.v, M, chunk.keys),
            rows(dy, M, chunk.rows),
            in.beta.at(chunk.bh) + chunk.first,
            L.data == nullptr ? nullptr : L.at(chunk.bh) + chunk.first,
            chunk.rows};
  }
};

}  // namespace linea::cuda

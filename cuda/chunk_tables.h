// Tables of a group's rows: the logs, scales and denominators that enter the products
// (cuda/chunk.h).
#pragma once

#include "cuda/chunk.h"

namespace linea::cuda {

// The largest log of a row, 0 if every feature is 0; all lanes of a warp call it.
template <typename T>
__device__ Accumulator<T> top_of(const T* logs, int64_t F) {
  using A = Accumulator<T>;
  A top = kNothing<A>;
  for (int64_t f = threadIdx.x % kWarp; f < F; f += kWarp) top = larger(top, A(logs[f]));
  top = warp_max(top);
  return top == kNothing<A> ? A(0) : top;
}

// Keys of a chunk: o_j = top_j + log w_j - L_j.
template <NumericMode kMode, typename T>
struct MakeKeys {
  using A = Accumulator<T>;
  ChunkShape shape;
  Group group;
  HeadRows<const T> k;
  Strided<const T> weight, decay;
  KeyTable<A> to;

  __device__ void operator()(int64_t slot) const {
    __shared__ double top[kTile], lost[kTile];
    __shared__ A offset[kTile];
    const Chunk chunk = chunk_at(shape, group, slot);
    const int i = static_cast<int>(threadIdx.x);
    const bool of_logs = kMode == NumericMode::logs && k.data != nullptr;
    if (of_logs)
      for (int j = i / kWarp; j < chunk.keys; j += kBlockThreads / kWarp) {
        const A max = top_of(k.at(chunk.bh, chunk.first + j), shape.features);
        if (i % kWarp == 0) top[j] = static_cast<double>(to.top[slot * kTile + j] = max);
      }
    if (i < chunk.keys)
      lost[i] = decay.data == nullptr ? 0.0 : double(A(decay.at(chunk.bh)[chunk.first + i]));
    __syncthreads();
    double past = 0;  // L
    if (i < kTile)
      for (int j = 0; j <= i && j < chunk.keys; ++j) past += lost[j];
    if (i < chunk.keys) {
      const double own =
          weight.data == nullptr ? 0.0 : double(A(weight.at(chunk.bh)[chunk.first + i]));
      offset[i] = static_cast<A>((of_logs ? top[i] : 0.0) + own - past);
      to.offset[slot * kTile + i] = offset[i];
    }
    if (i == kTile - 1) to.decay[slot] = static_cast<A>(past);
    __syncthreads();
    if (i < kTile) {
      A max = kNothing<A>;
      for (int j = 0; j <= i && j < chunk.keys; ++j) max = larger(max, offset[j]);
      to.max[slot * kTile + i] = max;
    }
    __syncthreads();
  }
};

// Queries of a chunk: denominator is null if only top is needed, grad (e) if it is not known yet.
template <NumericMode kMode, typename T>
struct MakeQueries {
  using A = Accumulator<T>;
  ChunkShape shape;
  Group group;
  HeadRows<const T> q;
  Strided<A> denominator, scale;
  Strided<const A> grad;
  QueryTable<A> to;

  __device__ void operator()(int64_t slot) const {
    const Chunk chunk = chunk_at(shape, group, slot);
    const int i = static_cast<int>(threadIdx.x);
    if (kMode == NumericMode::logs)
      for (int row = i / kWarp; row < chunk.rows; row += kBlockThreads / kWarp) {
        const A top = top_of(q.at(chunk.bh, chunk.first + row), shape.features);
        if (i % kWarp == 0) to.top[chunk.entry + row] = top;
      }
    if (i >= chunk.rows || denominator.data == nullptr) return;
    to.inverse[chunk.entry + i] = reciprocal_or_zero(denominator.at(chunk.bh)[chunk.first + i]);
    if (grad.data != nullptr) to.grad[chunk.entry + i] = grad.at(chunk.bh)[chunk.first + i];
    if (kMode != NumericMode::plain)
      to.offset[chunk.entry + i] = -scale.at(chunk.bh)[chunk.first + i];
  }
};

}  // namespace linea::cuda

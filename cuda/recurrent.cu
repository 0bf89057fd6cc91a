// One position of the sum rule, each element of the state touched once: a block a pair makes the rows and their
// scales, a block a pair and 32 columns of the state updates and reads it. Formulas in tensor/cpu/chunk.h.
#include <limits>

#include "cuda/block.h"
#include "cuda/chunk.h"
#include "cuda/cuda_kernels.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

// The key's and the query's features and what the state keeps, all relative to the new scales.
template <typename T>
struct Rescale {
  using A = Accumulator<T>;
  ChunkShape shape;
  ChunkInput<T> in;
  ChunkState<A> states;
  A *q, *k, *keep, *inverse;

  __device__ void operator()(int64_t pair) const {
    const int64_t F = shape.features, first = pair * F;
    const T *given_q = in.q.at(pair, 0), *given_k = in.k.at(pair, 0);
    const bool logs = shape.kind == FeatureKind::logs, scaled = states.scale != nullptr;
    const A weight = in.weight.data == nullptr ? A(0) : A(*in.weight.pair(pair));
    const A decay = in.decay.data == nullptr ? A(0) : A(*in.decay.pair(pair));
    A top = kNothing<A>;
    for (int64_t f = threadIdx.x; f < F; f += kBlockThreads) {
      A of_q = feature_of(shape.feature, A(given_q[f])), of_k = feature_of(shape.feature, A(given_k[f])), kept = A(1);
      if (scaled) {
        const A old = states.scale[first + f] + decay, fresh = logs ? of_k + weight : weight;
        const A scale = old > fresh ? old : fresh;
        states.scale[first + f] = scale;
        kept = factor(old, scale);
        of_k = logs ? factor(fresh, scale) : factor(fresh, scale) * of_k;
        if (logs) of_q += scale;
      }
      top = of_q > top ? of_q : top;
      q[first + f] = of_q;
      k[first + f] = of_k;
      keep[first + f] = kept;
      states.key_sum[first + f] = kept * states.key_sum[first + f] + of_k;
    }
    if (logs) top = block_max(top);
    A sum = 0;
    for (int64_t f = threadIdx.x; f < F; f += kBlockThreads) {
      if (logs) q[first + f] = factor(q[first + f], top);
      sum += q[first + f] * states.key_sum[first + f];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) inverse[pair] = reciprocal_or_zero(sum);
  }
};

constexpr int kColumns = 32, kParts = kBlockThreads / kColumns;  // of a block; features are dealt out to the parts

// S = keep S + k^T v, y = q S / (q z)
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    update_and_read(int64_t F, int64_t M, const Accumulator<T>* q, const Accumulator<T>* k,
                    const Accumulator<T>* keep, const Accumulator<T>* inverse, HeadRows<const T> v,
                    Accumulator<T>* state, T* y) {
  using A = Accumulator<T>;
  __shared__ A sums[kParts][kColumns];
  const int64_t pair = blockIdx.x, m = static_cast<int64_t>(blockIdx.y) * kColumns + threadIdx.x % kColumns;
  const int part = static_cast<int>(threadIdx.x) / kColumns;
  A sum = 0;
  if (m < M) {
    const A value = A(v.at(pair, 0)[m]);
#pragma unroll 4
    for (int64_t f = part; f < F; f += kParts) {
      A& s = state[(pair * F + f) * M + m];
      const A now = keep[pair * F + f] * s + k[pair * F + f] * value;
      s = now;
      sum += q[pair * F + f] * now;
    }
  }
  sums[part][threadIdx.x % kColumns] = sum;
  __syncthreads();
  if (part > 0 || m >= M) return;
  for (int other = 1; other < kParts; ++other) sum += sums[other][threadIdx.x];
  y[pair * M + m] = T(sum * inverse[pair]);
}

}  // namespace

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const ChunkState<Accumulator<T>>& states, T* y) {
  using A = Accumulator<T>;
  const int64_t P = shape.pairs, F = shape.features, M = shape.values;
  if (P == 0) return;
  const Workspace<A> rows(ctx, 3 * P * F + P);
  A *q = rows.data(), *k = q + P * F, *keep = k + P * F, *inverse = keep + P * F;
  for_each_row(ctx, P, Rescale<T>{shape, in, states, q, k, keep, inverse});
  if (M == 0) return;
  launch(update_and_read<T>, dim3(static_cast<unsigned>(P), static_cast<unsigned>((M + kColumns - 1) / kColumns)),
         dim3(kBlockThreads), 0, stream(ctx), F, M, q, k, keep, inverse, in.v, states.state, y);
}

#define LINEA_INSTANTIATE(T)                                                                          \
  template void recurrent_step(Context&, const ChunkShape&, const ChunkInput<T>&,                     \
                               const ChunkState<Accumulator<T>>&, T*);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

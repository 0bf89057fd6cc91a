// One position of the sum rule in one launch, each element of the state read once and written once. A team has a pair:
// its threads make a feature each, then update and read the rows of these features, 32 columns at a time. Formulas in
// tensor/cpu/chunk.h.
#include <limits>

#include "cuda/chunk.h"
#include "cuda/cuda_kernels.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

constexpr int kColumns = 32;  // of the state, that a team has at a time
constexpr int kTogether = 8;  // rows of a thread that are on their way at once

// What a thread has of a row.
template <typename A, int kWidth>
struct alignas(kWidth * sizeof(A)) Run {
  A x[kWidth];
};

template <typename T, int kWidth>
struct RecurrentStep {
  using A = Accumulator<T>;
  ChunkShape shape;
  ChunkInput<T> in;
  ChunkState<A> states;
  T* y;

  // A feature of the query and of the key, and what the state keeps, all relative to the new scale.
  struct Feature {
    A q, k, keep, scale;
  };
  __device__ Feature feature(int64_t pair, int64_t f) const {
    const A q = feature_of(shape.feature, A(in.q.at(pair, 0)[f])), k = feature_of(shape.feature, A(in.k.at(pair, 0)[f]));
    if (states.scale == nullptr) return {q, k, A(1), A(0)};
    const A weight = in.weight.data == nullptr ? A(0) : A(*in.weight.pair(pair));
    const A decay = in.decay.data == nullptr ? A(0) : A(*in.decay.pair(pair));
    const bool logs = shape.kind == FeatureKind::logs;
    const A old = states.scale[pair * shape.features + f] + decay, fresh = logs ? k + weight : weight;
    const A scale = old > fresh ? old : fresh, by = factor(fresh, scale);
    return {logs ? q + scale : q, logs ? by : by * k, factor(old, scale), scale};
  }

  // S = keep S + k^T v and sums += q S, of the columns of `v`; `state` is their first row, M the length of a row.
  __device__ static void update_and_read(const A* q, const A* k, const A* keep, int part, int parts, int count,
                                         const Run<A, kWidth>& v, A* state, int64_t M, Run<A, kWidth>& sums) {
    for (int first = part; first < count; first += parts * kTogether) {
      Run<A, kWidth> rows[kTogether] = {};
#pragma unroll
      for (int r = 0; r < kTogether; ++r)
        if (const int i = first + r * parts; i < count) rows[r] = *reinterpret_cast<Run<A, kWidth>*>(state + i * M);
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const int i = first + r * parts;
        if (i >= count) continue;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          rows[r].x[e] = keep[i] * rows[r].x[e] + k[i] * v.x[e];
          sums.x[e] += q[i] * rows[r].x[e];
        }
        *reinterpret_cast<Run<A, kWidth>*>(state + i * M) = rows[r];
      }
    }
  }

  template <typename Team>
  __device__ void operator()(Team team, int64_t pair) const {
    constexpr int kThreads = Team::kThreads, kLanes = kColumns / kWidth, kParts = kThreads / kLanes;
    __shared__ A all_q[kBlockThreads], all_k[kBlockThreads], all_keep[kBlockThreads], all_sums[kBlockThreads * kWidth];
    const int rank = team.rank(), part = rank / kLanes, column = rank % kLanes * kWidth;
    const int begin = static_cast<int>(threadIdx.x) - rank;  // of the team
    A *q = all_q + begin, *k = all_k + begin, *keep = all_keep + begin, *sums = all_sums + begin * kWidth;
    const int64_t F = shape.features, M = shape.values, at = pair * F;
    const bool logs = shape.kind == FeatureKind::logs;
    A top = kNothing<A>, inverse = 0;
    for (int64_t f = rank; logs && f < F; f += kThreads) top = larger(feature(pair, f).q, top);
    if (logs) top = team.max(top);
    for (int64_t first_m = 0; first_m == 0 || first_m < M; first_m += kColumns) {
      const int64_t m = first_m + column;
      Run<A, kWidth> v, own{};
      A denominator = 0;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) v.x[e] = m < M ? A(in.v.at(pair, 0)[m + e]) : A(0);
      for (int64_t first = 0; first < F; first += kThreads) {
        const int64_t f = first + rank;
        if (f < F) {
          Feature made = feature(pair, f);
          if (logs) made.q = factor(made.q, top);
          q[rank] = made.q;
          k[rank] = made.k;
          keep[rank] = made.keep;
          if (first_m == 0) {
            const A z = made.keep * states.key_sum[at + f] + made.k;
            states.key_sum[at + f] = z;
            denominator += made.q * z;
          }
          if (states.scale != nullptr && first_m + kColumns >= M) states.scale[at + f] = made.scale;
        }
        team.sync();
        const int count = static_cast<int>(F - first < kThreads ? F - first : kThreads);
        if (m < M)
          update_and_read(q, k, keep, part, kParts, count, v, states.state + (at + first) * M + m, M, own);
        team.sync();
      }
      if (first_m == 0) inverse = reciprocal_or_zero(team.sum(denominator));
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sums[part * kColumns + column + e] = own.x[e];
      team.sync();
      if (rank < kColumns && first_m + rank < M) {
        A sum = 0;
        for (int other = 0; other < kParts; ++other) sum += sums[other * kColumns + rank];
        y[pair * M + first_m + rank] = T(sum * inverse);
      }
      team.sync();
    }
  }
};

}  // namespace

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const ChunkState<Accumulator<T>>& states, T* y) {
  constexpr int kWide = 16 / sizeof(Accumulator<T>);
  const int64_t elements = shape.features * shape.values;
  if (shape.values % kWide == 0)
    for_each_team(ctx, shape.pairs, elements, RecurrentStep<T, kWide>{shape, in, states, y});
  else
    for_each_team(ctx, shape.pairs, elements, RecurrentStep<T, 1>{shape, in, states, y});
}

#define LINEA_INSTANTIATE(T)                                                                          \
  template void recurrent_step(Context&, const ChunkShape&, const ChunkInput<T>&,                     \
                               const ChunkState<Accumulator<T>>&, T*);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

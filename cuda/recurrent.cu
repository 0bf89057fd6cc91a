// One position of the sum rule in one launch, each element of the state read once, and written once where it is. A state
// in halves is read as bf16 by the positions that only look at it, as the parallel form reads states in bf16. A team
// has a pair: its threads make a feature each, then update and read the rows of these features, 32 columns at a time.
// Formulas in tensor/cpu/chunk.h.
#include <limits>
#include <type_traits>

#include "cuda/chunk.h"
#include "cuda/cuda_kernels.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

constexpr int kColumns = 32;  // of the state, that a team has at a time

// What a thread has of a row.
template <typename A, int kWidth>
struct alignas(kWidth * sizeof(A)) Run {
  A x[kWidth];
};

// What the threads of a team share: as many features of the query and of the keys that wait, the newest last, and what
// the state keeps; 32 columns of the values; and the sums of each thread.
template <typename A, int kWidth, int kThreads>
struct alignas(16) Shared {
  A q[kThreads], keep[kThreads];
  A keys[kMostWaiting][kThreads], values[kMostWaiting][kColumns];
  A sums[kThreads * kWidth];
};

template <typename T, int kWidth>
struct RecurrentStep {
  using A = Accumulator<T>;
  using Part = Run<A, kWidth>;
  static constexpr int kLanes = kColumns / kWidth;
  static constexpr bool kHalves = std::is_same_v<T, BFloat16> && kWidth == kWideRows;  // there may be
  ChunkShape shape;
  ChunkInput<T> in;
  ChunkState<A> states;
  Waiting<T> waiting;
  T* y;

  // A feature of the query and of the key, and what the state keeps, all relative to the new scale.
  struct Feature {
    A q, k, keep, scale;
  };
  __device__ Feature feature(int64_t pair, int64_t f) const {
    const A q = feature_of(shape.feature, A(in.q.at(pair, 0)[f]));
    const A k = feature_of(shape.feature, A(in.k.at(pair, 0)[f]));
    if (states.scale == nullptr) return {q, k, A(1), A(0)};
    const A weight = in.weight.data == nullptr ? A(0) : A(*in.weight.pair(pair));
    const A decay = in.decay.data == nullptr ? A(0) : A(*in.decay.pair(pair));
    const bool logs = shape.kind == FeatureKind::logs;
    const A old = states.scale[pair * shape.features + f] + decay, fresh = logs ? k + weight : weight;
    const A scale = old > fresh ? old : fresh, by = factor(fresh, scale);
    return {logs ? q + scale : q, logs ? by : by * k, factor(old, scale), scale};
  }

  // Elements of a row of the state from `at` on: where they lie in halves, the upper ones, which complete() makes whole.
  __device__ Part load(int64_t at) const {
    if constexpr (kHalves)
      if (waiting.high != nullptr) {
        const auto high = *reinterpret_cast<const Run<BFloat16, kWidth>*>(waiting.high + at);
        Part part;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) part.x[e] = high.x[e];
        return part;
      }
    return *reinterpret_cast<const Part*>(states.state + at);
  }
  __device__ void complete(int64_t at, Part& part) const {
    if constexpr (kHalves) {
      const auto low = *reinterpret_cast<const Run<BFloat16, kWidth>*>(waiting.low + at);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) part.x[e] = SplitFloat(BFloat16(part.x[e]), low.x[e]).whole();
    }
  }
  __device__ void store(int64_t at, const Part& part) const {
    if constexpr (kHalves)
      if (waiting.high != nullptr) {
        Run<BFloat16, kWidth> high, low;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          const SplitFloat x(part.x[e]);
          high.x[e] = x.high;
          low.x[e] = x.low;
        }
        *reinterpret_cast<Run<BFloat16, kWidth>*>(waiting.high + at) = high;
        *reinterpret_cast<Run<BFloat16, kWidth>*>(waiting.low + at) = low;
        return;
      }
    *reinterpret_cast<Part*>(states.state + at) = part;
  }

  // body(r, i) for each of this thread's rows i < count of a tile of features.
  template <int kThreads, typename Body>
  __device__ static void each_row(int rank, int count, const Body& body) {
#pragma unroll
    for (int r = 0; r < kLanes; ++r)
      if (const int i = rank / kLanes + r * (kThreads / kLanes); i < count) body(r, i);
  }

  // S = keep S + sum_j k_j^T v_j and sums += q S, of this thread's rows and columns.
  template <int kThreads>
  __device__ static void update_and_read(const Shared<A, kWidth, kThreads>& shared, int rank, int keys, int count,
                                         Part (&rows)[kLanes], Part& sums) {
    if (count == 0) return;  // there are no such columns
    each_row<kThreads>(rank, count, [&](int r, int i) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) rows[r].x[e] *= shared.keep[i];
    });
    for (int j = 0; j < keys; ++j) {
      const Part v = *reinterpret_cast<const Part*>(shared.values[j] + rank % kLanes * kWidth);
      each_row<kThreads>(rank, count, [&](int r, int i) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) rows[r].x[e] += shared.keys[j][i] * v.x[e];
      });
    }
    each_row<kThreads>(rank, count, [&](int r, int i) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sums.x[e] += shared.q[i] * rows[r].x[e];
    });
  }

  template <typename Team>
  __device__ void operator()(Team team, int64_t pair) const {
    constexpr int kThreads = Team::kThreads, kParts = kThreads / kLanes;
    __shared__ Shared<A, kWidth, kThreads> of_team[kBlockThreads / kThreads];
    Shared<A, kWidth, kThreads>& shared = of_team[threadIdx.x / kThreads];
    const int rank = team.rank(), column = rank % kLanes * kWidth;
    const int64_t F = shape.features, M = shape.values, at = pair * F, slot = pair * waiting.capacity;
    const int before = waiting.capacity == 0 ? 0 : waiting.count[pair];
    const bool write = before + 1 >= waiting.capacity, logs = shape.kind == FeatureKind::logs;
    A top = kNothing<A>, inverse = 0;
    for (int64_t f = rank; logs && f < F; f += kThreads) top = larger(feature(pair, f).q, top);
    if (logs) top = team.max(top);
    for (int64_t first_m = 0; first_m == 0 || first_m < M; first_m += kColumns) {
      if (const int64_t m = first_m + rank; rank < kColumns && m < M) {
        const T newest = in.v.at(pair, 0)[m];
        for (int j = 0; j < before; ++j) shared.values[j][rank] = A(waiting.values[(slot + j) * M + m]);
        shared.values[before][rank] = A(newest);
        if (!write) waiting.values[(slot + before) * M + m] = newest;
      }
      Part own{};
      A denominator = 0;
      for (int64_t first = 0; first < F; first += kThreads) {
        const int64_t f = first + rank;
        const int count = first_m + column >= M ? 0 : static_cast<int>(F - first < kThreads ? F - first : kThreads);
        const auto row = [&](int i) { return (at + first + i) * M + first_m + column; };
        Part rows[kLanes] = {};  // asked for before the features are made: they are what takes time
        each_row<kThreads>(rank, count, [&](int r, int i) { rows[r] = load(row(i)); });
        if (kHalves && write && waiting.high != nullptr)
          each_row<kThreads>(rank, count, [&](int r, int i) { complete(row(i), rows[r]); });
        if (f < F) {
          const Feature made = feature(pair, f);
          const A q = logs ? factor(made.q, top) : made.q;
          shared.q[rank] = q;
          shared.keep[rank] = made.keep;
          for (int j = 0; j < before; ++j)
            shared.keys[j][rank] = feature_of(shape.feature, A(waiting.keys[(slot + j) * F + f]));
          shared.keys[before][rank] = made.k;
          if (first_m == 0) {
            const A z = made.keep * states.key_sum[at + f] + made.k;
            states.key_sum[at + f] = z;
            denominator += q * z;
            if (!write) waiting.keys[(slot + before) * F + f] = in.k.at(pair, 0)[f];
          }
          if (states.scale != nullptr && first_m + kColumns >= M) states.scale[at + f] = made.scale;
        }
        team.sync();
        update_and_read(shared, rank, before + 1, count, rows, own);
        if (write) each_row<kThreads>(rank, count, [&](int r, int i) { store(row(i), rows[r]); });
        team.sync();
      }
      if (first_m == 0) inverse = reciprocal_or_zero(team.sum(denominator));
      *reinterpret_cast<Part*>(shared.sums + rank * kWidth) = own;  // [part][column]
      team.sync();
      if (rank < kColumns && first_m + rank < M) {
        A sum = 0;
        for (int part = 0; part < kParts; ++part) sum += shared.sums[part * kColumns + rank];
        y[pair * M + first_m + rank] = T(sum * inverse);
      }
      team.sync();
    }
    if (rank == 0 && waiting.capacity > 0) waiting.count[pair] = write ? 0 : before + 1;
  }
};

}  // namespace

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const ChunkState<Accumulator<T>>& states, const Waiting<T>& waiting, T* y) {
  constexpr int kWide = 16 / sizeof(Accumulator<T>);
  const int64_t elements = shape.features * shape.values;
  if (shape.values % kWide == 0)
    for_each_team(ctx, shape.pairs, elements, RecurrentStep<T, kWide>{shape, in, states, waiting, y});
  else
    for_each_team(ctx, shape.pairs, elements, RecurrentStep<T, 1>{shape, in, states, waiting, y});
}

#define LINEA_INSTANTIATE(T)                                                      \
  template void recurrent_step(Context&, const ChunkShape&, const ChunkInput<T>&, \
                               const ChunkState<Accumulator<T>>&, const Waiting<T>&, T*);
LINEA_INSTANTIATE(float)
LINEA_FOR_DOUBLE(LINEA_INSTANTIATE)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

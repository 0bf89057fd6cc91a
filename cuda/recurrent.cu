// One position of the sum rule, by a team per (batch, head): each thread computes a feature, then
// the team reads the state's rows of these features, 32 columns at a time; formulas in
// tensor/cpu/chunk.h. With pending updates, a position reads
//   y = q S + sum_j (q.k_j) v_j   over the pending keys, itself the last,
// each element of the state once, in split-bf16 states only the high half, as the parallel form
// reads states in bf16. When the pending updates are full, the position adds all of them to the
// state and reads that.
#include "cuda/chunk.h"
#include "cuda/split_float.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// Columns of the state that a team processes at a time.
constexpr int kColumns = 32;

// A thread's elements of a row.
template <typename A, int kWidth>
struct alignas(kWidth * sizeof(A)) Run {
  A x[kWidth];
};

// Shared by the threads of a team: one feature per thread of the query and of the pending keys, the
// newest last, and the state's factor keep; 32 columns of the values; q.k of each key; and the sums
// of each thread.
template <typename A, int kWidth, int kThreads>
struct alignas(16) StepShared {
  A q[kThreads], keep[kThreads];
  A keys[kMaxPending][kThreads], values[kMaxPending][kColumns];
  A dots[kMaxPending];
  A sums[kThreads * kWidth];
};

// kHalves: split-bf16 state.
template <typename T, int kWidth, bool kHalves>
struct RecurrentStep {
  using A = Accumulator<T>;
  using Part = Run<A, kWidth>;
  // Elements of a row that is only read.
  using Held = std::conditional_t<kHalves, Run<BFloat16, kWidth>, Part>;
  static constexpr int kLanes = kColumns / kWidth;
  ChunkShape shape;
  ChunkInput<T> in;
  ChunkState<A> states;
  PendingUpdates<T> pending;
  T* y;

  // A feature of the query and of the key, and the state's factor, all relative to the new scale.
  struct Feature {
    A q, k, keep, scale;
  };
  __device__ Feature feature(const T* rows_q, const T* rows_k, int64_t bh, int64_t f) const {
    const A q = feature_of(shape.feature, A(rows_q[f])),
            k = feature_of(shape.feature, A(rows_k[f]));
    if (states.scale == nullptr) return {q, k, A(1), A(0)};
    const A weight = in.weight.data == nullptr ? A(0) : A(*in.weight.at(bh));
    const A decay = in.decay.data == nullptr ? A(0) : A(*in.decay.at(bh));
    const bool logs = shape.kind == FeatureKind::logs;
    const A old = states.scale[bh * shape.features + f] + decay, fresh = logs ? k + weight : weight;
    const A scale = old > fresh ? old : fresh, by = factor(fresh, scale);
    return {logs ? q + scale : q, logs ? by : by * k, factor(old, scale), scale};
  }

  // Elements of a row of the state from `at` on; of a split-bf16 state the high halves, which
  // whole() completes.
  __device__ Held load(int64_t at) const {
    if constexpr (kHalves)
      return *reinterpret_cast<const Held*>(pending.high + at);
    else
      return *reinterpret_cast<const Held*>(states.state + at);
  }
  __device__ Part whole(int64_t at, const Held& held) const {
    if constexpr (!kHalves) return held;
    const auto low = *reinterpret_cast<const Run<BFloat16, kWidth>*>(pending.low + at);
    Part part;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) part.x[e] = SplitFloat(BFloat16(held.x[e]), low.x[e]).whole();
    return part;
  }
  __device__ void store(int64_t at, const Part& part) const {
    if constexpr (kHalves) {
      Run<BFloat16, kWidth> high, low;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const SplitFloat x(part.x[e]);
        high.x[e] = x.high;
        low.x[e] = x.low;
      }
      *reinterpret_cast<Run<BFloat16, kWidth>*>(pending.high + at) = high;
      *reinterpret_cast<Run<BFloat16, kWidth>*>(pending.low + at) = low;
    } else {
      *reinterpret_cast<Part*>(states.state + at) = part;
    }
  }

  // Calls body(r, i) for each of this thread's rows i < count of a tile of features.
  template <int kThreads, typename Body>
  __device__ static void each_row(int rank, int count, const Body& body) {
#pragma unroll
    for (int r = 0; r < kLanes; ++r)
      if (const int i = rank / kLanes + r * (kThreads / kLanes); i < count) body(r, i);
  }

  // S = keep S + sum_j k_j^T v_j for a thread's columns of row i.
  template <int kThreads>
  __device__ static void update(const StepShared<A, kWidth, kThreads>& shared, int rank, int keys,
                                int i, Part& row) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) row.x[e] *= shared.keep[i];
#pragma unroll 1
    for (int j = 0; j < keys; ++j) {
      const Part v = *reinterpret_cast<const Part*>(shared.values[j] + rank % kLanes * kWidth);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) row.x[e] += shared.keys[j][i] * v.x[e];
    }
  }

  // sums += q S for one row of S.
  template <typename Row>
  __device__ static void add_read(Part& sums, A q, const Row& row) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sums.x[e] += q * A(row.x[e]);
  }

  // dot += q.k_j over the features in shared memory, where j is the thread's key: keys are
  // distributed round-robin over the warps of a team, and each lane has the sum of one of its
  // warp's keys.
  template <int kThreads>
  __device__ static void add_dots(const StepShared<A, kWidth, kThreads>& shared, int rank, int keys,
                                  int count, A& dot) {
    constexpr int kWarps = kThreads / kWarp;
#pragma unroll 1
    for (int j = rank / kWarp; j < keys; j += kWarps) {
      A part = 0;
      for (int i = rank % kWarp; i < count; i += kWarp) part += shared.q[i] * shared.keys[j][i];
      part = warp_sum(part);
      if (key_of<kThreads>(rank) == j) dot += part;
    }
  }
  template <int kThreads>
  __device__ static int key_of(int rank) {
    return rank % kWarp * (kThreads / kWarp) + rank / kWarp;
  }

  template <typename Team>
  __device__ void operator()(Team team, int64_t bh) const {
    const T *const q0 = in.q.at(bh, 0), *const k0 = in.k.at(bh, 0), *const v0 = in.v.at(bh, 0);
    constexpr int kThreads = Team::kThreads, kParts = kThreads / kLanes;
    __shared__ StepShared<A, kWidth, kThreads> of_team[kBlockThreads / kThreads];
    StepShared<A, kWidth, kThreads>& shared = of_team[threadIdx.x / kThreads];
    const int rank = team.rank(), column = rank % kLanes * kWidth;
    const int64_t F = shape.features, M = shape.values, at = bh * F, slot = bh * pending.capacity;
    const int before = pending.capacity == 0 ? 0 : pending.count[bh];
    const bool write = before + 1 >= pending.capacity, logs = shape.kind == FeatureKind::logs;
    A top = kNothing<A>, inverse = 0;
    for (int64_t f = rank; logs && f < F; f += kThreads)
      top = larger(feature(q0, k0, bh, f).q, top);
    if (logs) top = team.max(top);
    A dot = 0;
    for (int64_t first_m = 0; first_m == 0 || first_m < M; first_m += kColumns) {
      if (const int64_t m = first_m + rank; rank < kColumns && m < M) {
        const T newest = v0[m];
#pragma unroll 2
        for (int j = 0; j < before; ++j)
          shared.values[j][rank] = A(pending.values[(slot + j) * M + m]);
        shared.values[before][rank] = A(newest);
        if (!write) pending.values[(slot + before) * M + m] = newest;
      }
      Part own{};
      A denominator = 0;
      for (int64_t first = 0; first < F; first += kThreads) {
        const int64_t f = first + rank;
        const int features = static_cast<int>(F - first < kThreads ? F - first : kThreads);
        const int count = first_m + column >= M ? 0 : features;
        const int64_t corner = (at + first) * M + first_m + column;
        const auto row = [&](int i) { return corner + i * static_cast<int>(M); };
        Held rows[kLanes] = {};  // requested before the features are computed, to hide the latency
        each_row<kThreads>(rank, count, [&](int r, int i) { rows[r] = load(row(i)); });
        if (f < F) {
          const Feature made = feature(q0, k0, bh, f);
          const A q = logs ? factor(made.q, top) : made.q;
          shared.q[rank] = q;
          shared.keep[rank] = made.keep;
#pragma unroll 2
          for (int j = 0; j < before; ++j)
            shared.keys[j][rank] = feature_of(shape.feature, A(pending.keys[(slot + j) * F + f]));
          shared.keys[before][rank] = made.k;
          if (first_m == 0) {
            const A z = made.keep * states.key_sum[at + f] + made.k;
            states.key_sum[at + f] = z;
            denominator += q * z;
            if (!write) pending.keys[(slot + before) * F + f] = k0[f];
          }
          if (states.scale != nullptr && first_m + kColumns >= M) states.scale[at + f] = made.scale;
        }
        team.sync();
        const auto write_row = [&](int i, Part part) {
          update(shared, rank, before + 1, i, part);
          store(row(i), part);
          add_read(own, shared.q[i], part);
        };
        if (!write) {
          each_row<kThreads>(rank, count,
                             [&](int r, int i) { add_read(own, shared.q[i], rows[r]); });
        } else if constexpr (kHalves) {  // read again, one by one: rare, and it saves registers
#pragma unroll 1
          for (int i = rank / kLanes; i < count; i += kThreads / kLanes)
            write_row(i, whole(row(i), load(row(i))));
        } else {
          each_row<kThreads>(rank, count, [&](int r, int i) { write_row(i, rows[r]); });
        }
        if (!write && first_m == 0) add_dots(shared, rank, before + 1, features, dot);
        team.sync();
      }
      if (first_m == 0) {
        inverse = reciprocal_or_zero(team.sum(denominator));
        if (const int j = key_of<kThreads>(rank); j < kMaxPending) shared.dots[j] = dot;
      }
      *reinterpret_cast<Part*>(shared.sums + rank * kWidth) = own;  // [part][column]
      team.sync();
      if (rank < kColumns && first_m + rank < M) {
        A sum = 0;
        for (int part = 0; part < kParts; ++part) sum += shared.sums[part * kColumns + rank];
#pragma unroll 1
        for (int j = 0; !write && j <= before; ++j) sum += shared.dots[j] * shared.values[j][rank];
        y[bh * M + first_m + rank] = T(sum * inverse);
      }
      team.sync();
    }
    if (rank == 0 && pending.capacity > 0) pending.count[bh] = write ? 0 : before + 1;
  }
};

}  // namespace

template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const RecurrentView<T>& state, T* y) {
  const auto& [states, pending] = state;
  constexpr int kWide = 16 / sizeof(Accumulator<T>);
  const auto start = [&](const auto& step) {
    for_each_team(ctx, shape.batch_heads, shape.features * shape.values, step);
  };
  if constexpr (std::is_same_v<T, BFloat16>)
    if (pending.high != nullptr)
      return start(RecurrentStep<T, kWideRows, true>{shape, in, states, pending, y});
  if (shape.values % kWide == 0)
    start(RecurrentStep<T, kWide, false>{shape, in, states, pending, y});
  else
    start(RecurrentStep<T, 1, false>{shape, in, states, pending, y});
}

LINEA_KERNEL_TABLE(RecurrentKernels, .recurrent_step = recurrent_step<T>)

}  // namespace linea::cuda

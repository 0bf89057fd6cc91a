// One position of the sum rule, by a team per (batch, head): each thread computes a feature, then
// the team reads the state's rows of these features, 32 columns at a time; formulas in
// tensor/cpu/chunk.h. With pending updates, a position reads
//   y = q S + sum_j (q.k_j) v_j   over the pending keys, itself the last,
// each element of the state once, in split-bf16 states only the high half, as the parallel form
// reads states in bf16. When the pending updates are full, the position adds all of them to the
// state and reads that.
#include "cuda/chunk.h"
#include "cuda/elements.h"
#include "cuda/split_float.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// Columns of the state that a team processes at a time.
constexpr int kColumns = 32;

// Shared by the threads of a team: one feature per thread of the query and of the pending keys, the
// newest last, and the state's factor keep; 32 columns of the values; q.k of each key; and the sums
// of each thread. Rows of keys begin at different banks of shared memory.
template <typename A, int kWidth, int kThreads>
struct alignas(16) StepShared {
  A q[kThreads], keep[kThreads];
  A keys[kMaxPending][kThreads + kWarp / kMaxPending], values[kMaxPending][kColumns];
  A dots[kMaxPending];
  A sums[kThreads * kWidth];
};

// kHalves: split-bf16 state.
template <typename T, int kWidth, bool kHalves>
struct RecurrentStep {
  using A = Accumulator<T>;
  using Part = Elements<A, kWidth>;
  // Elements of a row that is only read.
  using Held = std::conditional_t<kHalves, Elements<BFloat16, kWidth>, Part>;
  struct alignas(16) Halves {  // of a row of split-bf16
    BFloat16 x[kWidth];
  };
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
  __device__ bool scaled() const { return !kHalves && states.scale != nullptr; }
  __device__ Feature feature(T given_q, T given_k, int64_t bh, int f) const {
    const A q = feature_of(shape.feature, A(given_q)),
            k = A(T(feature_of(shape.feature, A(given_k))));
    if (!scaled()) return {q, k, A(1), A(0)};
    const A weight = in.weight.data == nullptr ? A(0) : A(*in.weight.at(bh));
    const A decay = in.decay.data == nullptr ? A(0) : A(*in.decay.at(bh));
    const bool logs = shape.kind == FeatureKind::logs;
    const A old = states.scale[bh * shape.features + f] + decay, fresh = logs ? k + weight : weight;
    const A scale = old > fresh ? old : fresh, by = factor(fresh, scale);
    return {logs ? q + scale : q, logs ? by : by * k, factor(old, scale), scale};
  }

  // Elements of a row of the state from `at` on; of a split-bf16 state the high halves, or whole.
  __device__ Held load(int64_t at) const {
    if constexpr (kHalves)
      return load_elements<BFloat16, kWidth>(pending.high + at);
    else
      return load_elements<A, kWidth>(states.state + at);
  }
  __device__ Part whole(int64_t at) const {
    const auto high = *reinterpret_cast<const Halves*>(pending.high + at),
               low = *reinterpret_cast<const Halves*>(pending.low + at);
    Part part;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) part.x[e] = SplitFloat(high.x[e], low.x[e]).whole();
    return part;
  }
  __device__ void store(int64_t at, const Part& part) const {
    if constexpr (kHalves) {
      Halves high, low;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const SplitFloat x(part.x[e]);
        high.x[e] = x.high;
        low.x[e] = x.low;
      }
      *reinterpret_cast<Halves*>(pending.high + at) = high;
      *reinterpret_cast<Halves*>(pending.low + at) = low;
    } else {
      store_elements(part.x, states.state + at);
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
      const Part v = load_elements<A, kWidth>(shared.values[j] + rank % kLanes * kWidth);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) row.x[e] += shared.keys[j][i] * v.x[e];
    }
  }

  // sums += q S for one row of S.
  template <typename Row>
  __device__ static void add_read(Part& sums, A q, const Row& row) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sums.x[e] += q * row.at(e);
  }

  // dot += q.k_j over a thread's share of the features in shared memory; key j has kKeyThreads
  // neighboring threads.
  template <int kThreads>
  static constexpr int kKeyThreads = kThreads / kMaxPending;
  template <int kThreads>
  __device__ static void add_dots(const StepShared<A, kWidth, kThreads>& shared, int rank, int keys,
                                  int count, A& dot) {
    const int j = rank / kKeyThreads<kThreads>;
#pragma unroll
    for (int e = 0; e < kMaxPending; ++e) {
      const int i = rank % kKeyThreads<kThreads> + e * kKeyThreads<kThreads>;
      if (j < keys && i < count) dot += shared.q[i] * shared.keys[j][i];
    }
  }
  // of[j] = x[at + j size] for j < count, 0 for the rest: requested together.
  using Pending = T[kMaxPending - 1];
  __device__ static void load_pending(const T* x, int at, int size, int count, Pending& of) {
#pragma unroll
    for (int j = 0; j < kMaxPending - 1; ++j) of[j] = j < count ? x[at + j * size] : T(0.0f);
  }
  // Calls body(j, x[j]) for the pending keys or values j < count.
  template <typename Body>
  __device__ static void each_pending(const Pending& x, int count, const Body& body) {
#pragma unroll
    for (int j = 0; j < kMaxPending - 1; ++j)
      if (j < count) body(j, A(x[j]));
  }

  template <typename Team>
  __device__ void operator()(Team team, int64_t bh) const {
    const T *const q0 = in.q.at(bh, 0), *const k0 = in.k.at(bh, 0), *const v0 = in.v.at(bh, 0);
    constexpr int kThreads = Team::kThreads, kParts = kThreads / kLanes;
    __shared__ StepShared<A, kWidth, kThreads> of_team[kBlockThreads / kThreads];
    StepShared<A, kWidth, kThreads>& shared = of_team[threadIdx.x / kThreads];
    const int rank = team.rank(), column = rank % kLanes * kWidth;
    const int F = static_cast<int>(shape.features), M = static_cast<int>(shape.values);
    const int64_t slot = bh * pending.capacity, first_row = bh * F;
    T *const pending_keys = pending.keys + slot * F, *const pending_values =
                                                         pending.values + slot * M;
    A* const key_sum = states.key_sum + first_row;
    const int before = pending.capacity == 0 ? 0 : pending.count[bh];
    const bool write = before + 1 >= pending.capacity,
               logs = !kHalves && shape.kind == FeatureKind::logs;
    A top = kNothing<A>, inverse = 0;
    for (int f = rank; logs && f < F; f += kThreads)
      top = larger(feature(q0[f], k0[f], bh, f).q, top);
    if (logs) top = team.max(top);
    A dot = 0;
    for (int first_m = 0; first_m == 0 || first_m < M; first_m += kColumns) {
      // What comes from memory is requested before anything is computed, to hide the latency.
      const int m = first_m + rank;
      const bool has_column = rank < kColumns && m < M;
      Pending values;
      load_pending(pending_values, m, M, has_column ? before : 0, values);
      const T newest = has_column ? v0[m] : T(0.0f);
      Part own{};
      A denominator = 0;
      for (int first = 0; first < F; first += kThreads) {
        const int f = first + rank, features = F - first < kThreads ? F - first : kThreads;
        const int count = first_m + column >= M ? 0 : features;
        const int64_t corner = (first_row + first) * M + first_m + column;
        const auto row = [&](int i) { return corner + i * M; };
        Held rows[kLanes] = {};
        each_row<kThreads>(rank, count, [&](int r, int i) { rows[r] = load(row(i)); });
        Pending keys;
        load_pending(pending_keys, f, F, f < F ? before : 0, keys);
        if (f < F) {
          const A sum = key_sum[f];
          const Feature made = feature(q0[f], k0[f], bh, f);
          const A q = logs ? factor(made.q, top) : made.q;
          shared.q[rank] = q;
          shared.keep[rank] = made.keep;
          each_pending(keys, before, [&](int j, A k) { shared.keys[j][rank] = k; });
          shared.keys[before][rank] = made.k;
          if (first_m == 0) {
            const A z = made.keep * sum + made.k;
            key_sum[f] = z;
            denominator += q * z;
            if (!write) pending_keys[before * F + f] = T(made.k);
          }
          if (scaled() && first_m + kColumns >= M) states.scale[first_row + f] = made.scale;
        }
        if (write && first == 0 && has_column) {
          each_pending(values, before, [&](int j, A v) { shared.values[j][rank] = v; });
          shared.values[before][rank] = A(newest);
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
          if (first_m == 0) add_dots(shared, rank, before + 1, features, dot);
        } else if constexpr (kHalves) {  // read again, one by one: rare, and it saves registers
#pragma unroll 1
          for (int i = rank / kLanes; i < count; i += kThreads / kLanes)
            write_row(i, whole(row(i)));
        } else {
          each_row<kThreads>(rank, count, [&](int r, int i) { write_row(i, rows[r]); });
        }
        team.sync();
      }
      if (first_m == 0) {
        inverse = reciprocal_or_zero(team.sum(denominator));
        dot = warp_reduce(dot, Sum{}, kKeyThreads<kThreads>);
        if (rank % kKeyThreads<kThreads> == 0) shared.dots[rank / kKeyThreads<kThreads>] = dot;
      }
      store_elements(own.x, shared.sums + rank * kWidth);  // [part][column]
      team.sync();
      if (has_column) {
        A sum = 0;
#pragma unroll
        for (int part = 0; part < kParts; ++part) sum += shared.sums[part * kColumns + rank];
        if (!write) {
          each_pending(values, before, [&](int j, A v) { sum += shared.dots[j] * v; });
          sum += shared.dots[before] * A(newest);
          pending_values[before * M + m] = newest;
        }
        y[bh * M + m] = T(sum * inverse);
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

// Sampling of one token from a row of outputs by a block, with the result of the CPU: weights, sums
// and the choice are in double.
#include <bit>

#include "cuda/kernel_tables.h"
#include "cuda/mixture.h"
#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

struct Smallest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

// The index of the first maximum. Like std::max_element, ignores NaN except in the first element,
// which then wins.
template <typename T, typename Team>
__device__ int64_t first_largest(Team team, const T* x, int64_t C) {
  using A = Accumulator<T>;
  constexpr int64_t kNone = INT64_MAX;
  A max = kNothing<A>;
  int64_t first = kNone;
  for (int64_t c = team.rank(); c < C; c += Team::kThreads) {
    const A value = A(x[c]);
    if (!(value > max) && (first != kNone || value != value)) continue;
    max = value;
    first = c;
  }
  const A overall_max = team.max(max);
  first = team.reduce(max == overall_max ? first : kNone, Smallest{});
  const A front = A(x[0]);
  return front != front ? 0 : first;
}

// The first i < n at which the running sum of weight(i) reaches `share` of the total; the last i
// with a positive weight if rounding prevents that; n if the total is NaN. Each thread sums a run
// of neighbors, and the thread whose run contains the result scans it. All threads of the block
// call it.
template <typename Weight>
__device__ int64_t first_reaching(int64_t n, double share, const Weight& weight) {
  __shared__ double of_warp[kBlockWarps], reached[kBlockThreads];
  __shared__ int64_t found;
  const int own = static_cast<int>(threadIdx.x);
  const int64_t each = (n + kBlockThreads - 1) / kBlockThreads, begin = own * each;
  double of_run = 0;
  for (int64_t i = begin; i < begin + each && i < n; ++i) of_run += weight(i);
  double sum = warp_running_sum(of_run);
  if (own_lane() == kWarp - 1) of_warp[own_warp()] = sum;
  __syncthreads();
  double total = 0;
  for (int warp = 0; warp < kBlockWarps; ++warp) {
    if (warp == own_warp()) sum += total;
    total += of_warp[warp];
  }
  reached[own] = sum;
  const double until = share * total;
  if (own == 0) found = n;
  // The first run with a positive weight that reaches it. Prefix sums are rounded differently in
  // each run, so possibly none does: then the last run with a positive weight.
  const int rank = !(of_run > 0)  ? 2 * kBlockThreads
                   : sum >= until ? own
                                  : 2 * kBlockThreads - 1 - own;
  if (block_reduce(rank, Smallest{}) == rank && of_run > 0 && total == total) {
    double before = own == 0 ? 0 : reached[own - 1];
    for (int64_t i = begin; i < begin + each && i < n; ++i) {
      const double w = weight(i);
      before += w;
      if (w > 0) found = i;
      if (before >= until) break;
    }
  }
  __syncthreads();
  return found;  // thread 0 writes it again only after the next call's first barrier
}

// Fills order with the indices 0 .. V - 1 by decreasing weight, ties by index; the padding up to
// the power of two `slots` comes last. A bitonic sort (Batcher 1968).
__device__ void sort_by_weight(const double* weights, int32_t* order, int64_t V, int64_t slots) {
  const auto before = [=](int32_t i, int32_t j) {
    if (i >= V || j >= V || weights[i] == weights[j]) return i < j;
    return weights[i] > weights[j];
  };
  for (int64_t i = threadIdx.x; i < slots; i += kBlockThreads) order[i] = static_cast<int32_t>(i);
  for (int64_t size = 2; size <= slots; size *= 2)
    for (int64_t distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < slots / 2; i += kBlockThreads) {
        const int64_t low = 2 * i - i % distance;
        const int32_t a = order[low], b = order[low + distance];
        if (before(b, a) != ((low & size) == 0)) continue;
        order[low] = b;
        order[low + distance] = a;
      }
    }
  __syncthreads();
}

// Sets the weights of excluded tokens to 0.
__device__ void cut_weights(const SamplingParams& params, double* weights, int32_t* order,
                            int64_t V, int64_t slots) {
  sort_by_weight(weights, order, V, slots);
  const int64_t max_kept = params.top_k > 0 && params.top_k < V ? params.top_k : V;
  const int64_t last =
      first_reaching(max_kept, params.top_p, [=](int64_t i) { return weights[order[i]]; });
  for (int64_t i = last + 1 + threadIdx.x; i < V; i += kBlockThreads) weights[order[i]] = 0;
  __syncthreads();
}

// The first token at which the running sum of the remaining weights exp((score - max) /
// temperature) reaches u times the total: the inverse of the distribution function. A row's scores are
// its logits, or the log probabilities of a mixture's levels (cuda/mixture.h). A block has V weights
// and `slots` indices to sort them, none if no token is excluded.
template <OutputKind kKind, typename T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    sample_kernel(const T* outputs, int64_t width, int64_t V, SamplingParams params,
                  RandomStream numbers, SampledTokens to, double* all_weights, int32_t* all_orders,
                  int64_t slots) {
  double* const weights = all_weights + blockIdx.x * V;
  int32_t* const order = all_orders + blockIdx.x * slots;
  for (int64_t r = blockIdx.x; r < to.rows; r += gridDim.x) {
    const T* const row = outputs + r * width;
    if constexpr (kKind == OutputKind::logistics) {
      each_level(row, V,
                 [&](int64_t v, Accumulator<T> log_p) { weights[v] = static_cast<double>(log_p); });
    } else {
      for (int64_t v = threadIdx.x; v < V; v += kBlockThreads)
        weights[v] = static_cast<double>(Accumulator<T>(row[v]));
    }
    __syncthreads();
    const int64_t likeliest = first_largest(BlockTeam{}, weights, V);
    int64_t chosen = likeliest;
    if (!params.greedy) {
      const double largest = weights[likeliest];
      __syncthreads();
      for (int64_t v = threadIdx.x; v < V; v += kBlockThreads)
        weights[v] = std::exp((weights[v] - largest) / params.temperature);
      __syncthreads();
      if (slots > 0) cut_weights(params, weights, order, V, slots);
      RandomStream of_row = numbers;
      of_row.step += static_cast<uint64_t>(to.num_sampled(r));
      const double share = random_uniform(of_row, static_cast<uint64_t>(params.first_row + r));
      const int64_t reached = first_reaching(V, share, [=](int64_t v) { return weights[v]; });
      if (reached < V) chosen = reached;
    }
    __syncthreads();  // all threads have read the token count and the weights
    if (threadIdx.x == 0) to.append(r, static_cast<int32_t>(chosen));
  }
}

}  // namespace

template <typename T>
void argmax(Context& ctx, const T* x, int32_t* index, int64_t R, int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const int64_t found = first_largest(team, x + r * C, C);
    if (team.rank() == 0) index[r] = static_cast<int32_t>(found);
  });
}

template <typename T>
void sample(Context& ctx, OutputKind kind, const T* outputs, int64_t V,
            const SamplingParams& params, RandomStream stream_of_rows, const SampledTokens& to) {
  if (to.rows <= 0) return;
  // Rows at a time; each needs memory for its weights and their order.
  const int64_t max = ctx.sizes.block / 16 / V + 1;
  const int64_t blocks = to.rows < max ? to.rows : max;
  const bool cut = !params.greedy && ((params.top_k > 0 && params.top_k < V) || params.top_p < 1);
  const int64_t slots = cut ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(V))) : 0;
  const bool mixtures = kind == OutputKind::logistics;
  const Workspace<double> weights(ctx, blocks * V);
  const Workspace<int32_t> order(ctx, blocks * (slots > 0 ? slots : 1));
  launch_blocks(
      ctx, grid_of(blocks),
      mixtures ? sample_kernel<OutputKind::logistics, T> : sample_kernel<OutputKind::logits, T>,
      outputs, mixtures ? 3 * kLogistics : V, V, params, stream_of_rows, to, weights.data(),
      order.data(), slots);
}

LINEA_KERNEL_TABLE(SamplingKernels, .argmax = argmax<T>, .sample = sample<T>)

}  // namespace linea::cuda

// How a block draws one symbol of a row of logits, as the CPU draws it: weights, sums and the choice in double.
#pragma once

#include "cuda/team.h"
#include "tensor/kernels.h"

namespace linea::cuda {

struct Smallest {
  template <typename T>
  __device__ T operator()(T a, T b) const { return b < a ? b : a; }
};

// The first of the largest elements. NaN is passed over, but wins where it comes first: so does std::max_element.
template <typename T, typename Team>
__device__ int64_t first_largest(Team team, const T* x, int64_t C) {
  using A = Accumulator<T>;
  constexpr int64_t kNone = INT64_MAX;
  A most = -std::numeric_limits<A>::infinity();
  int64_t first = kNone;
  for (int64_t c = team.rank(); c < C; c += Team::kThreads) {
    const A value = A(x[c]);
    if (!(value > most) && (first != kNone || value != value)) continue;
    most = value;
    first = c;
  }
  const A most_of_all = team.max(most);
  first = team.reduce(most == most_of_all ? first : kNone, Smallest{});
  const A front = A(x[0]);
  return front != front ? 0 : first;
}

inline int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// The first i < n at which the running sum of weight(i) reaches `share` of the whole, the last that weighs anything
// where rounding keeps it from that, and n where the whole is NaN. Each thread sums a run of neighbours; then one
// thread walks the runs, and the run in which the place is. All threads of the block call it.
template <typename Weight>
__device__ int64_t first_reaching(int64_t n, double share, const Weight& weight) {
  __shared__ double run[kBlockThreads];
  __shared__ int64_t place;
  const int64_t each = (n + kBlockThreads - 1) / kBlockThreads, begin = threadIdx.x * each;
  double sum = 0;
  for (int64_t i = begin; i < begin + each && i < n; ++i) sum += weight(i);
  run[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    double total = 0, before = 0;
    for (int t = 0; t < kBlockThreads; ++t) total += run[t];
    const double until = share * total;
    int t = 0;
    while (t < kBlockThreads - 1 && before + run[t] < until) before += run[t++];
    const bool known = total == total;
    place = known ? n - 1 : n;
    for (int64_t i = known ? t * each : n; i < n; ++i) {
      const double w = weight(i);
      before += w;
      if (w > 0) place = i;
      if (before >= until) break;
    }
  }
  __syncthreads();
  return place;  // thread 0 writes it again behind the next call's first barrier
}

// order becomes the places 0 .. V - 1, the largest weight first, of equals the first place; what is behind them,
// up to the power of two `places`, comes last. A bitonic sort (Batcher 1968).
__device__ inline void sort_by_weight(const double* weights, int32_t* order, int64_t V, int64_t places) {
  const auto before = [=](int32_t i, int32_t j) {
    if (i >= V || j >= V || weights[i] == weights[j]) return i < j;
    return weights[i] > weights[j];
  };
  for (int64_t i = threadIdx.x; i < places; i += kBlockThreads) order[i] = static_cast<int32_t>(i);
  for (int64_t size = 2; size <= places; size *= 2)
    for (int64_t distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < places / 2; i += kBlockThreads) {
        const int64_t low = 2 * i - i % distance;
        const int32_t a = order[low], b = order[low + distance];
        if (before(b, a) != ((low & size) == 0)) continue;
        order[low] = b;
        order[low + distance] = a;
      }
    }
  __syncthreads();
}

// Leaves 0 in the weights of symbols that are not to be drawn.
__device__ inline void cut_weights(const Drawing& drawing, double* weights, int32_t* order, int64_t V,
                                   int64_t places) {
  sort_by_weight(weights, order, V, places);
  const int64_t kept_most = drawing.top_k > 0 && drawing.top_k < V ? drawing.top_k : V;
  const int64_t last = first_reaching(kept_most, drawing.top_p, [=](int64_t i) { return weights[order[i]]; });
  for (int64_t i = last + 1 + threadIdx.x; i < V; i += kBlockThreads) weights[order[i]] = 0;
  __syncthreads();
}

// The first symbol at which the running sum of the weights exp((x - max) / temperature) that are left reaches u
// times the whole: the inverse of the distribution function. A block has V weights and `places` places to sort them,
// none where nothing is cut.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    sample_kernel(const T* logits, int32_t* index, int64_t R, int64_t V, Drawing drawing, RandomStream numbers,
                  const int32_t* count, double* all_weights, int32_t* all_orders, int64_t places) {
  using A = Accumulator<T>;
  if (count != nullptr) numbers.step += static_cast<uint64_t>(*count);
  double* const weights = all_weights + blockIdx.x * V;
  int32_t* const order = all_orders + blockIdx.x * places;
  for (int64_t r = blockIdx.x; r < R; r += gridDim.x) {
    const T* x = logits + r * V;
    const int64_t likeliest = first_largest(BlockTeam{}, x, V);
    const double largest = static_cast<double>(A(x[likeliest]));
    for (int64_t v = threadIdx.x; v < V; v += kBlockThreads)
      weights[v] = std::exp((static_cast<double>(A(x[v])) - largest) / drawing.temperature);
    __syncthreads();
    if (places > 0) cut_weights(drawing, weights, order, V, places);
    const double share = random_uniform(numbers, static_cast<uint64_t>(drawing.first_row + r));
    const int64_t chosen = first_reaching(V, share, [=](int64_t v) { return weights[v]; });
    if (threadIdx.x == 0) index[r] = static_cast<int32_t>(chosen < V ? chosen : likeliest);
  }
}

}  // namespace linea::cuda

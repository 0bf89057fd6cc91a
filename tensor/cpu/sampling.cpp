// Sampling of tokens from a model's outputs.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

template <typename T>
void argmax(Context& ctx, const T* x, int32_t* index, int64_t R, int64_t C) {
  parallel_rows(ctx, R, C, [&](int64_t r) {
    index[r] = static_cast<int32_t>(std::max_element(x + r * C, x + (r + 1) * C) - (x + r * C));
  });
}

// Zeroes the weights of tokens excluded by top_k and top_p. `order`: workspace of V.
void cut(const SamplingParams& params, double* weights, int32_t* order, int64_t V) {
  const int64_t max_kept = params.top_k > 0 ? std::min(params.top_k, V) : V;
  if (max_kept == V && params.top_p >= 1) return;
  std::iota(order, order + V, 0);
  std::sort(order, order + V, [&](int32_t i, int32_t j) {
    return weights[i] != weights[j] ? weights[i] > weights[j] : i < j;
  });
  double total = 0, sum = 0;
  for (int64_t i = 0; i < max_kept; ++i) total += weights[order[i]];
  int64_t kept = 0;
  while (kept < max_kept && (kept == 0 || sum < params.top_p * total))
    sum += weights[order[kept++]];
  for (int64_t i = kept; i < V; ++i) weights[order[i]] = 0;
}

// Inverse transform sampling: the first token at which the cumulative sum of the remaining weights
// exp((x - max) / temperature) reaches u times their total. `weights`, `order`: workspaces of V.
template <typename T>
int64_t sample_token(const T* x, int64_t V, const SamplingParams& params, double u, double* weights,
                     int32_t* order) {
  const int64_t most_likely = std::max_element(x, x + V) - x;
  if (params.greedy) return most_likely;
  const double largest = x[most_likely];
  for (int64_t v = 0; v < V; ++v) weights[v] = std::exp((x[v] - largest) / params.temperature);
  cut(params, weights, order, V);
  const double threshold = u * std::accumulate(weights, weights + V, 0.0);
  double sum = 0;
  for (int64_t v = 0; v < V; ++v) {
    sum += weights[v];
    if (sum >= threshold) return v;
  }
  return most_likely;
}

template <typename T>
void sample(Context& ctx, OutputKind kind, const T* outputs, int64_t V,
            const SamplingParams& params, RandomStream stream, const SampledTokens& to) {
  const bool mixtures = kind == OutputKind::logistics;
  const Workspace<T> levels(ctx, mixtures ? to.rows * V : 1);
  if (mixtures)
    kernels_of<LossKernels<T>>().logistics_scores(ctx, outputs, levels.data(), to.rows, V);
  const T* const scores = mixtures ? levels.data() : outputs;
  const Workspace<double> all_weights(ctx, ctx.threads * V);
  const Workspace<int32_t> all_orders(ctx, ctx.threads * V);
  parallel_rows(ctx, to.rows, 32 * V, [&](int64_t r) {
    double* weights = all_weights.data() + omp_get_thread_num() * V;
    int32_t* order = all_orders.data() + omp_get_thread_num() * V;
    RandomStream of_row = stream;
    of_row.step += static_cast<uint64_t>(to.num_sampled(r));
    const double u = random_uniform(of_row, static_cast<uint64_t>(params.first_row + r));
    const int64_t token = sample_token(scores + r * V, V, params, u, weights, order);
    to.append(r, static_cast<int32_t>(token));
  });
}

LINEA_KERNEL_TABLE(SamplingKernels, .argmax = argmax<T>, .sample = sample<T>)

}  // namespace linea::cpu

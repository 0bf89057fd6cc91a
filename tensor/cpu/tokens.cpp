// Kernels between tokens and numbers: embedding, cross-entropy, drawing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

// y[r] = table[ids[r]]
template <typename T>
void embedding(Context& ctx, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C) {
  parallel_ranges(ctx, R, C, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) std::copy_n(table + ids[r] * C, C, y + r * C);
  });
}

template <typename T>
void embed_position(Context& ctx, const T* table, const int32_t* ids, const T* positions,
                    const int32_t* place, T* y, int64_t R, int64_t C) {
  parallel_ranges(ctx, R, C, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T* position = positions + place[r] * C;
      std::transform(position, position + C, table + ids[r] * C, y + r * C, std::plus<T>());
    }
  });
}

// dtable[s] = sum of dy[r] where ids[r] = s. Each thread owns a range of columns and walks the rows
// in order: no atomics, the same bits at any thread count.
template <typename T>
void embedding_backward(Context& ctx, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t tokens, int64_t C) {
  std::fill_n(dtable, tokens * C, T(0));
  parallel_ranges(ctx, C, R, [&](int64_t first, int64_t last) {
    for (int64_t r = 0; r < R; ++r) {
      T* to = dtable + ids[r] * C;
#pragma omp simd
      for (int64_t c = first; c < last; ++c) to[c] += dy[r * C + c];
    }
  });
}

// loss = log sum_v exp(x_v) - x_target
template <typename T>
void cross_entropy(Context& ctx, const T* logits, const int32_t* targets, T* losses, T* log_sums,
                   int64_t R, int64_t V) {
  parallel_ranges(ctx, R, 16 * V, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T* x = logits + r * V;
      const T largest = *std::max_element(x, x + V);
      T total = 0;
#pragma omp simd reduction(+ : total)
      for (int64_t v = 0; v < V; ++v) total += exp_below(x[v] - largest);
      log_sums[r] = largest + std::log(total);
      losses[r] = targets[r] < 0 ? T(0) : log_sums[r] - x[targets[r]];
    }
  });
}

template <typename T>
void mean_scored(Context&, const T* losses, const int32_t* targets, T* mean, T* scored, int64_t R) {
  double total = 0, count = 0;
  for (int64_t r = 0; r < R; ++r) {
    if (targets[r] < 0) continue;
    total += static_cast<double>(losses[r]);
    ++count;
  }
  *mean = static_cast<T>(total * reciprocal_or_zero(count));
  *scored = static_cast<T>(count);
}

// dx_v = (softmax(x)_v - [v = target]) dmean / scored
template <typename T>
void cross_entropy_backward(Context& ctx, const T* logits, const int32_t* targets,
                            const T* log_sums, const T* scored, const T* dmean, T* dlogits,
                            int64_t R, int64_t V) {
  const T weight = *dmean * reciprocal_or_zero(*scored);
  parallel_ranges(ctx, R, 8 * V, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T* x = logits + r * V;
      T* dx = dlogits + r * V;
      if (targets[r] < 0) {
        std::fill_n(dx, V, T(0));
        continue;
      }
      const T shift = log_sums[r];
#pragma omp simd
      for (int64_t v = 0; v < V; ++v) dx[v] = exp_below(x[v] - shift) * weight;
      dx[targets[r]] -= weight;
    }
  });
}

template <typename T>
void argmax(Context& ctx, const T* x, int32_t* index, int64_t R, int64_t C) {
  parallel_ranges(ctx, R, C, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      index[r] = static_cast<int32_t>(std::max_element(x + r * C, x + (r + 1) * C) - (x + r * C));
  });
}

// Leaves 0 in the weights of tokens that are not to be drawn. `order` is memory of V.
void cut(const SamplingParams& params, double* weights, int32_t* order, int64_t V) {
  const int64_t kept_most = params.top_k > 0 ? std::min(params.top_k, V) : V;
  if (kept_most == V && params.top_p >= 1) return;
  std::iota(order, order + V, 0);
  std::sort(order, order + V, [&](int32_t i, int32_t j) {
    return weights[i] != weights[j] ? weights[i] > weights[j] : i < j;
  });
  double total = 0, sum = 0;
  for (int64_t i = 0; i < kept_most; ++i) total += weights[order[i]];
  int64_t kept = 0;
  while (kept < kept_most && (kept == 0 || sum < params.top_p * total))
    sum += weights[order[kept++]];
  for (int64_t i = kept; i < V; ++i) weights[order[i]] = 0;
}

// The first token at which the running sum of the weights exp((x - max) / temperature) that are
// left reaches u times the whole: the inverse of the distribution function. `weights` and `order`
// are memory of V.
template <typename T>
int64_t sample_token(const T* x, int64_t V, const SamplingParams& params, double u, double* weights,
                    int32_t* order) {
  const int64_t likeliest = std::max_element(x, x + V) - x;
  if (params.greedy) return likeliest;
  const double largest = x[likeliest];
  for (int64_t v = 0; v < V; ++v) weights[v] = std::exp((x[v] - largest) / params.temperature);
  cut(params, weights, order, V);
  const double until = u * std::accumulate(weights, weights + V, 0.0);
  double sum = 0;
  for (int64_t v = 0; v < V; ++v) {
    sum += weights[v];
    if (sum >= until) return v;
  }
  return likeliest;
}

template <typename T>
void sample(Context& ctx, OutputKind kind, const T* outputs, int64_t V, const SamplingParams& params,
            RandomStream stream, const SampledTokens& to) {
  const bool mixtures = kind == OutputKind::logistics;
  const Workspace<T> levels(ctx, mixtures ? to.rows * V : 1);
  if (mixtures) logistics_scores(ctx, outputs, levels.data(), to.rows, V);
  const T* const scores = mixtures ? levels.data() : outputs;
  const Workspace<double> all_weights(ctx, ctx.threads * V);
  const Workspace<int32_t> all_orders(ctx, ctx.threads * V);
  parallel_ranges(ctx, to.rows, 32 * V, [&](int64_t first, int64_t last) {
    double* weights = all_weights.data() + omp_get_thread_num() * V;
    int32_t* order = all_orders.data() + omp_get_thread_num() * V;
    for (int64_t r = first; r < last; ++r) {
      RandomStream of_row = stream;
      of_row.step += static_cast<uint64_t>(to.already(r));
      const double u = random_uniform(of_row, static_cast<uint64_t>(params.first_row + r));
      to.keep(r, static_cast<int32_t>(sample_token(scores + r * V, V, params, u, weights, order)));
    }
  });
}

#define LINEA_INSTANTIATE(T)                                                                     \
  template void embedding(Context&, const T*, const int32_t*, T*, int64_t, int64_t);             \
  template void embed_position(Context&, const T*, const int32_t*, const T*, const int32_t*, T*, \
                               int64_t, int64_t);                                                \
  template void embedding_backward(Context&, const int32_t*, const T*, T*, int64_t, int64_t,     \
                                   int64_t);                                                     \
  template void cross_entropy(Context&, const T*, const int32_t*, T*, T*, int64_t, int64_t);     \
  template void mean_scored(Context&, const T*, const int32_t*, T*, T*, int64_t);                \
  template void cross_entropy_backward(Context&, const T*, const int32_t*, const T*, const T*,   \
                                       const T*, T*, int64_t, int64_t);                          \
  template void argmax(Context&, const T*, int32_t*, int64_t, int64_t);                          \
  template void sample(Context&, OutputKind, const T*, int64_t, const SamplingParams&, RandomStream,    \
                       const SampledTokens&);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu

// Losses: cross-entropy of logits, and the negative log-likelihood of mixtures of logistic
// distributions on the levels of a token (formulas.h).
#include <algorithm>
#include <cmath>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

// loss = log sum_v exp(x_v) - x_target
template <typename T>
void cross_entropy(Context& ctx, const T* logits, const int32_t* targets, T* losses, T* log_sums,
                   int64_t R, int64_t V) {
  parallel_rows(ctx, R, 16 * V, [&](int64_t r) {
    const T* x = logits + r * V;
    const T largest = *std::max_element(x, x + V);
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t v = 0; v < V; ++v) total += exp_below(x[v] - largest);
    log_sums[r] = largest + std::log(total);
    losses[r] = targets[r] < 0 ? T(0) : log_sums[r] - x[targets[r]];
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
  parallel_rows(ctx, R, 8 * V, [&](int64_t r) {
    const T* x = logits + r * V;
    T* dx = dlogits + r * V;
    if (targets[r] < 0) {
      std::fill_n(dx, V, T(0));
      return;
    }
    const T shift = log_sums[r];
#pragma omp simd
    for (int64_t v = 0; v < V; ++v) dx[v] = exp_below(x[v] - shift) * weight;
    dx[targets[r]] -= weight;
  });
}

// A row of a mixture holds K logits, K means and K log scales.
namespace {

constexpr int64_t K = kLogistics;

template <typename T>
T log_sum_exp(const T* x, int64_t count) {
  const T largest = *std::max_element(x, x + count);
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += exp_of(x[i] - largest);
  return largest + std::log(sum);
}

// The distributions of one row and the logs of their weights.
template <typename T>
struct Mixture {
  Logistic<T> components[K];
  T log_share[K];

  Mixture(const T* row, int64_t V) {
    const T log_sum = log_sum_exp(row, K);
    for (int64_t k = 0; k < K; ++k) {
      log_share[k] = row[k] - log_sum;
      components[k] = Logistic<T>::of(row[K + k], row[2 * K + k], static_cast<T>(V - 1));
    }
  }

  void logs(T level, T* log_p) const {
    for (int64_t k = 0; k < K; ++k) log_p[k] = log_share[k] + components[k].log_mass(level);
  }
};

}  // namespace

// loss = -log sum_k share_k P_k(target)
template <typename T>
void logistics_loss(Context& ctx, const T* mixtures, const int32_t* targets, T* losses, int64_t R,
                    int64_t V) {
  parallel_rows(ctx, R, 64 * K, [&](int64_t r) {
    losses[r] = 0;
    if (targets[r] < 0) return;
    T log_p[K];
    Mixture<T>(mixtures + r * 3 * K, V).logs(static_cast<T>(targets[r]), log_p);
    losses[r] = -log_sum_exp(log_p, K);
  });
}

// With the responsibilities r_k = share_k P_k(target) / P(target):
//   dlogit_k = share_k - r_k    dmean_k = -r_k dlog P_k / dmean    dlog_scale_k likewise,
//   each times dmean / scored
template <typename T>
void logistics_loss_backward(Context& ctx, const T* mixtures, const int32_t* targets,
                             const T* losses, const T* scored, const T* dmean, T* dmixtures,
                             int64_t R, int64_t V) {
  const T weight = *dmean * reciprocal_or_zero(*scored);
  parallel_rows(ctx, R, 96 * K, [&](int64_t r) {
    T* grads = dmixtures + r * 3 * K;
    std::fill_n(grads, 3 * K, T(0));
    if (targets[r] < 0) return;
    const Mixture<T> mixture(mixtures + r * 3 * K, V);
    const T level = static_cast<T>(targets[r]);
    T log_p[K];
    mixture.logs(level, log_p);
    for (int64_t k = 0; k < K; ++k) {
      const T r_k = exp_of(log_p[k] + losses[r]);
      T of_mean, of_log_scale;
      mixture.components[k].grads(level, of_mean, of_log_scale);
      grads[k] = weight * (exp_of(mixture.log_share[k]) - r_k);
      grads[K + k] = -weight * r_k * of_mean;
      grads[2 * K + k] = -weight * r_k * of_log_scale;
    }
  });
}

// scores[r,s] = log P(s), the same probabilities as in the loss
template <typename T>
void logistics_scores(Context& ctx, const T* mixtures, T* scores, int64_t R, int64_t V) {
  parallel_arenas<T>(ctx, R, 32 * K * V, K * V, [&](int64_t r, Arena<T> arena) {
    T* logs = arena.take(K * V);  // [K,V]
    const Mixture<T> mixture(mixtures + r * 3 * K, V);
    T* row = scores + r * V;
    std::fill_n(row, V, kNothing<T>);
    for (int64_t k = 0; k < K; ++k) {
      const Logistic<T> component = mixture.components[k];
      const T log_share = mixture.log_share[k];
      T* to = logs + k * V;
#pragma omp simd
      for (int64_t s = 0; s < V; ++s) {
        to[s] = log_share + component.log_mass(static_cast<T>(s));
        row[s] = to[s] > row[s] ? to[s] : row[s];
      }
    }
    for (int64_t s = 0; s < V; ++s) {
      T sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += exp_of(logs[k * V + s] - row[s]);
      row[s] += std::log(sum);
    }
  });
}

LINEA_KERNEL_TABLE(LossKernels, .cross_entropy = cross_entropy<T>, .mean_scored = mean_scored<T>,
                   .cross_entropy_backward = cross_entropy_backward<T>,
                   .logistics_loss = logistics_loss<T>,
                   .logistics_loss_backward = logistics_loss_backward<T>,
                   .logistics_scores = logistics_scores<T>)

}  // namespace linea::cpu

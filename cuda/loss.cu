// Losses: cross-entropy of logits, and the negative log-likelihood of mixtures of logistic
// distributions on the levels of a token (formulas.h).
#include "cuda/kernel_tables.h"
#include "cuda/mixture.h"
#include "cuda/wide_rows.h"

namespace linea::cuda {

// loss = log sum_v exp(x_v) - x_target
template <typename T>
void cross_entropy(Context& ctx, const T* logits, const int32_t* targets, Accumulator<T>* losses,
                   Accumulator<T>* log_sums, int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each_wide_row(ctx, R, V, are_aligned(logits), [=] __device__(auto row, int64_t r) {
    const T* x = logits + r * V;
    const A largest = row.largest(x);
    const A total = row.total([=](A v) { return MathFor<T>::exp(v - largest); }, x);
    if (!row.leads()) return;
    const A log_sum = largest + std::log(total);
    log_sums[r] = log_sum;
    losses[r] = targets[r] < 0 ? A(0) : log_sum - A(x[targets[r]]);
  });
}

// One block: there is one element per row.
template <typename T>
void mean_scored(Context& ctx, const Accumulator<T>* losses, const int32_t* targets,
                 Accumulator<T>* mean, Accumulator<T>* scored, int64_t R) {
  using A = Accumulator<T>;
  for_each_row(ctx, 1, [=] __device__(int64_t) {
    const double total = BlockTeam{}.sum_of(
        R, [&](int64_t r) { return targets[r] < 0 ? 0.0 : static_cast<double>(losses[r]); });
    const double count =
        BlockTeam{}.sum_of(R, [&](int64_t r) { return targets[r] < 0 ? 0.0 : 1.0; });
    if (threadIdx.x != 0) return;
    *mean = static_cast<A>(total * reciprocal_or_zero(count));
    *scored = static_cast<A>(count);
  });
}

// dx_v = (softmax(x)_v - [v = target]) dmean / scored
template <typename T>
void cross_entropy_backward(Context& ctx, const T* logits, const int32_t* targets,
                            const Accumulator<T>* log_sums, const Accumulator<T>* scored,
                            const Accumulator<T>* dmean, T* dlogits, int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, V, [=] __device__(auto team, int64_t r) {
    const T* x = logits + r * V;
    T* dx = dlogits + r * V;
    const A weight = *dmean * reciprocal_or_zero(*scored), shift = log_sums[r];
    const int32_t target = targets[r];
    for (int64_t v = team.rank(); v < V; v += team.kThreads) {
      const A share = exp_of(A(x[v]) - shift) * weight;
      dx[v] = T(target < 0 ? A(0) : v == target ? share - weight : share);
    }
  });
}

// A row of a mixture holds K logits, K means and K log scales. One thread per row; for scores, one
// block per row.
constexpr int K = kMixed;

// loss = -log sum_k share_k P_k(target)
template <typename T>
void logistics_loss(Context& ctx, const T* mixtures, const int32_t* targets, Accumulator<T>* losses,
                    int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each(ctx, R, [=] __device__(int64_t r) {
    if (targets[r] < 0) {
      losses[r] = A(0);
      return;
    }
    const T* row = mixtures + r * 3 * K;
    const A whole = log_whole(row), level = static_cast<A>(targets[r]);
    A log_p[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      log_p[k] = A(row[k]) - whole + logistic_of(row, k, V).log_mass(level);
    losses[r] = -log_sum_exp(log_p);
  });
}

// With r_k = share_k P_k(target) / P(target), the responsibility of component k:
//   dlogit_k = share_k - r_k    dmean_k = -r_k dlog P_k / dmean    dlog_scale_k likewise, each
//   times dmean / scored
template <typename T>
void logistics_loss_backward(Context& ctx, const T* mixtures, const int32_t* targets,
                             const Accumulator<T>* losses, const Accumulator<T>* scored,
                             const Accumulator<T>* dmean, T* dmixtures, int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each(ctx, R, [=] __device__(int64_t r) {
    T* grads = dmixtures + r * 3 * K;
    if (targets[r] < 0) {
      for (int i = 0; i < 3 * K; ++i) grads[i] = T(A(0));
      return;
    }
    const T* row = mixtures + r * 3 * K;
    const A weight = *dmean * reciprocal_or_zero(*scored);
    const A whole = log_whole(row), level = static_cast<A>(targets[r]), loss = losses[r];
    for (int k = 0; k < K; ++k) {
      const Logistic<A> logistic = logistic_of(row, k, V);
      const A log_share = A(row[k]) - whole;
      const A part = exp_of(log_share + logistic.log_mass(level) + loss);
      A of_mean, of_log_scale;
      logistic.grads(level, of_mean, of_log_scale);
      grads[k] = T(weight * (exp_of(log_share) - part));
      grads[K + k] = T(-weight * part * of_mean);
      grads[2 * K + k] = T(-weight * part * of_log_scale);
    }
  });
}

// scores[r,s] = log P(s), as in the loss
template <typename T>
void logistics_scores(Context& ctx, const T* mixtures, T* scores, int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each_row(ctx, R, [=] __device__(int64_t r) {
    each_level(mixtures + r * 3 * K, V, [&](int64_t s, A log_p) { scores[r * V + s] = T(log_p); });
  });
}

LINEA_KERNEL_TABLE(LossKernels, .cross_entropy = cross_entropy<T>, .mean_scored = mean_scored<T>,
                   .cross_entropy_backward = cross_entropy_backward<T>,
                   .logistics_loss = logistics_loss<T>,
                   .logistics_loss_backward = logistics_loss_backward<T>,
                   .logistics_scores = logistics_scores<T>)

}  // namespace linea::cuda

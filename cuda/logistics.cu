// Mixtures of logistic distributions on the levels of a token (formulas.h). A row of a mixture is
// K logits, K means and K log scales; one thread does a row, and one block a row of scores.
#include "cuda/cuda_kernels.h"
#include "cuda/mixture.h"

namespace linea::cuda {
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

// With r_k = share_k P_k(target) / P(target), the part of the target's probability that is k's:
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

// scores[r,s] = log P(s), as the loss has it
template <typename T>
void logistics_scores(Context& ctx, const T* mixtures, T* scores, int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each_row(ctx, R, [=] __device__(int64_t r) {
    const Mixture<A>& mixture = block_mixture(mixtures + r * 3 * K, V);
    for (int64_t s = threadIdx.x; s < V; s += kBlockThreads)
      scores[r * V + s] = T(mixture.log_p(s));
  });
}

#define LINEA_INSTANTIATE(T)                                                                       \
  template void logistics_loss(Context&, const T*, const int32_t*, Accumulator<T>*, int64_t,       \
                               int64_t);                                                           \
  template void logistics_loss_backward(Context&, const T*, const int32_t*, const Accumulator<T>*, \
                                        const Accumulator<T>*, const Accumulator<T>*, T*, int64_t, \
                                        int64_t);                                                  \
  template void logistics_scores(Context&, const T*, T*, int64_t, int64_t);
LINEA_INSTANTIATE(float)
LINEA_FOR_DOUBLE(LINEA_INSTANTIATE)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

// Kernels between tokens and numbers: embedding, cross-entropy, drawing.
#include "cuda/cuda_kernels.h"
#include "cuda/sampling.h"
#include "cuda/scatter.h"

namespace linea::cuda {
namespace {

template <typename T>
struct TokenRows {
  const int32_t* ids;
  const T* dy;
  int64_t R, C;
  __device__ int64_t count(int64_t) const { return R; }
  __device__ int64_t bin(int64_t, int64_t r) const { return ids[r]; }
  __device__ Accumulator<T> value(int64_t, int64_t r, int64_t c) const {
    return Accumulator<T>(dy[r * C + c]);
  }
};

}  // namespace

// y[r] = table[ids[r]]
template <typename T>
void embedding(Context& ctx, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T* from = table + ids[r] * C;
    T* to = y + r * C;
    for (int64_t c = team.rank(); c < C; c += team.kThreads) to[c] = from[c];
  });
}

template <typename T>
void embed_position(Context& ctx, const Accumulator<T>* table, const int32_t* ids,
                    const Accumulator<T>* positions, const int32_t* place, T* y, int64_t R,
                    int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const Accumulator<T>*token = table + ids[r] * C, *position = positions + place[r] * C;
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      y[r * C + c] = T(token[c] + position[c]);
  });
}

// dtable[s] = sum of dy[r] where ids[r] = s
template <typename T>
void embedding_backward(Context& ctx, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t tokens, int64_t C) {
  using A = Accumulator<T>;
  scatter_sums<A>(
      ctx, {1, R, tokens, C}, TokenRows<T>{ids, dy, R, C},
      [=] __device__(int64_t token, int64_t c, A total) { dtable[token * C + c] = T(total); });
}

// loss = log sum_v exp(x_v) - x_target
template <typename T>
void cross_entropy(Context& ctx, const T* logits, const int32_t* targets, Accumulator<T>* losses,
                   Accumulator<T>* log_sums, int64_t R, int64_t V) {
  using A = Accumulator<T>;
  for_each_team(ctx, R, V, [=] __device__(auto team, int64_t r) {
    const T* x = logits + r * V;
    A largest = -std::numeric_limits<A>::infinity();
    for (int64_t v = team.rank(); v < V; v += team.kThreads) largest = Largest{}(largest, A(x[v]));
    largest = team.max(largest);
    A total = 0;
    for (int64_t v = team.rank(); v < V; v += team.kThreads) total += exp_of(A(x[v]) - largest);
    total = team.sum(total);
    if (team.rank() != 0) return;
    const A log_sum = largest + std::log(total);
    log_sums[r] = log_sum;
    losses[r] = targets[r] < 0 ? A(0) : log_sum - A(x[targets[r]]);
  });
}

// One block: there is one number a row.
template <typename T>
void mean_scored(Context& ctx, const Accumulator<T>* losses, const int32_t* targets,
                 Accumulator<T>* mean, Accumulator<T>* scored, int64_t R) {
  using A = Accumulator<T>;
  for_each_row(ctx, 1, [=] __device__(int64_t) {
    double total = 0, count = 0;
    for (int64_t r = threadIdx.x; r < R; r += kBlockThreads) {
      total += targets[r] < 0 ? 0.0 : static_cast<double>(losses[r]);
      count += targets[r] < 0 ? 0.0 : 1.0;
    }
    total = block_sum(total);
    count = block_sum(count);
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
  const int64_t max = ctx.sizes.block / 16 / V +
                      1;  // rows at a time: each has memory for its weights and their order
  const int64_t blocks = to.rows < max ? to.rows : max;
  const bool cut = !params.greedy && ((params.top_k > 0 && params.top_k < V) || params.top_p < 1);
  const int64_t places = cut ? power_of_two_from(V) : 0;
  const bool mixtures = kind == OutputKind::logistics;
  const Workspace<double> weights(ctx, blocks * V);
  const Workspace<int32_t> order(ctx, blocks * (places > 0 ? places : 1));
  launch(mixtures ? sample_kernel<OutputKind::logistics, T> : sample_kernel<OutputKind::logits, T>,
         dim3(static_cast<unsigned>(blocks)), dim3(kBlockThreads), 0, stream(ctx), outputs,
         mixtures ? 3 * kLogistics : V, V, params, stream_of_rows, to, weights.data(), order.data(),
         places);
}

#define LINEA_INSTANTIATE(T)                                                                      \
  template void embedding(Context&, const T*, const int32_t*, T*, int64_t, int64_t);              \
  template void embed_position(Context&, const Accumulator<T>*, const int32_t*,                   \
                               const Accumulator<T>*, const int32_t*, T*, int64_t, int64_t);      \
  template void embedding_backward(Context&, const int32_t*, const T*, T*, int64_t, int64_t,      \
                                   int64_t);                                                      \
  template void cross_entropy(Context&, const T*, const int32_t*, Accumulator<T>*,                \
                              Accumulator<T>*, int64_t, int64_t);                                 \
  template void mean_scored<T>(Context&, const Accumulator<T>*, const int32_t*, Accumulator<T>*,  \
                               Accumulator<T>*, int64_t);                                         \
  template void cross_entropy_backward(Context&, const T*, const int32_t*, const Accumulator<T>*, \
                                       const Accumulator<T>*, const Accumulator<T>*, T*, int64_t, \
                                       int64_t);                                                  \
  template void argmax(Context&, const T*, int32_t*, int64_t, int64_t);                           \
  template void sample(Context&, OutputKind, const T*, int64_t, const SamplingParams&,            \
                       RandomStream, const SampledTokens&);
LINEA_INSTANTIATE(float)
LINEA_FOR_DOUBLE(LINEA_INSTANTIATE)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda

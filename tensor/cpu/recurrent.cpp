// One position of the sum rule in one pass over the state. Formulas in tensor/cpu/chunk.h.
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// S = keep S + k^T v, z = keep z + k, y = q S / (q z); null keep: 1.
template <typename T>
void update_and_read(const T* q, const T* k, const T* keep, const T* v, T* state, T* key_sum, T* y,
                     int64_t F, int64_t M) {
  std::fill_n(y, M, T(0));
  for (int64_t f = 0; f < F; ++f) {
    T* row = state + f * M;
    const T weight_k = k[f], weight_q = q[f], factor_f = keep == nullptr ? T(1) : keep[f];
#pragma omp simd
    for (int64_t m = 0; m < M; ++m) {
      row[m] = factor_f * row[m] + weight_k * v[m];
      y[m] += weight_q * row[m];
    }
    key_sum[f] = factor_f * key_sum[f] + weight_k;
  }
  const T inverse = reciprocal_or_zero(dot(q, key_sum, F));
  for (int64_t m = 0; m < M; ++m) y[m] *= inverse;
}

// Features of key and query and the factor of the state, relative to the new scales.
template <typename T>
void rescale(FeatureKind kind, const T* q, const T* k, T weight, T decay, T* scale, T* scaled_q,
             T* scaled_k, T* keep, int64_t F) {
  const bool logs = kind == FeatureKind::logs;
#pragma omp simd
  for (int64_t f = 0; f < F; ++f) {
    const T old = scale[f] + decay, fresh = logs ? k[f] + weight : weight;
    scale[f] = std::max(old, fresh);
    keep[f] = factor(old, scale[f]);
    scaled_k[f] = logs ? factor(fresh, scale[f]) : factor(fresh, scale[f]) * k[f];
    scaled_q[f] = logs ? q[f] + scale[f] : q[f];
  }
  if (!logs) return;
  const T top = largest(scaled_q, F);
#pragma omp simd
  for (int64_t f = 0; f < F; ++f) scaled_q[f] = factor(scaled_q[f], top);
}

}  // namespace

// Updates are not delayed: a state is in the cache when it is written.
template <typename T>
void recurrent_step(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                    const RecurrentView<T>& view, T* y) {
  const ChunkState<T>& states = view.sums;
  const int64_t F = shape.features, M = shape.values;
  const int64_t each = 3 * F + chunk_workspace(shape);
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_rows(ctx, shape.batch_heads, 4 * F * M, [&](int64_t bh) {
    T* scaled_q = workspace.data() + omp_get_thread_num() * each;
    T *scaled_k = scaled_q + F, *keep = scaled_k + F;
    Arena<T> arena(keep + F);
    const T* q = expand_values(shape, in.q, bh, 0, 1, arena);
    const T* k = expand_values(shape, in.k, bh, 0, 1, arena);
    const T* v = in.v.at(bh, 0);
    T *state = states.state + bh * F * M, *key_sum = states.key_sum + bh * F;
    if (states.scale == nullptr)
      return update_and_read<T>(q, k, nullptr, v, state, key_sum, y + bh * M, F, M);
    const T weight = in.weight.data == nullptr ? T(0) : *in.weight.at(bh);
    const T decay = in.decay.data == nullptr ? T(0) : *in.decay.at(bh);
    rescale(shape.kind, q, k, weight, decay, states.scale + bh * F, scaled_q, scaled_k, keep, F);
    update_and_read(scaled_q, scaled_k, keep, v, state, key_sum, y + bh * M, F, M);
  });
}

LINEA_KERNEL_TABLE(RecurrentKernels, .recurrent_step = recurrent_step<T>)

}  // namespace linea::cpu

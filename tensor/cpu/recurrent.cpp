// One position of the sum rule in one pass over the state. Formulas in tensor/cpu/chunk.h.
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// Features of query and key, and what the state is multiplied by, null: 1.
template <typename T>
struct Position {
  const T *q, *k, *keep;
};

// S = keep S + k^T v, z = keep z + k, y = q S / (q z)
template <typename T>
void update_and_read(const Position<T>& at, const T* v, T* state, T* key_sum, T* y, int64_t F,
                     int64_t M) {
  std::fill_n(y, M, T(0));
  for (int64_t f = 0; f < F; ++f) {
    T* row = state + f * M;
    const T k = at.k[f], q = at.q[f], keep = at.keep == nullptr ? T(1) : at.keep[f];
#pragma omp simd
    for (int64_t m = 0; m < M; ++m) {
      row[m] = keep * row[m] + k * v[m];
      y[m] += q * row[m];
    }
    key_sum[f] = keep * key_sum[f] + k;
  }
  const T inverse = reciprocal_or_zero(dot(at.q, key_sum, F));
  for (int64_t m = 0; m < M; ++m) y[m] *= inverse;
}

// The features relative to the new scales, and what the state is multiplied by. Arena: 3 F. `given` is
// a copy: its pointers, read through a reference, would keep the loop from being vectorized.
template <typename T>
Position<T> rescale(const ChunkShape& shape, Position<T> given, T weight, T decay, T* scale,
                    Arena<T>& arena) {
  const int64_t F = shape.features;
  const bool logs = shape.kind == FeatureKind::logs;
  T *q = arena.take(F), *k = arena.take(F), *keep = arena.take(F);
#pragma omp simd
  for (int64_t f = 0; f < F; ++f) {
    const T old = scale[f] + decay, fresh = logs ? given.k[f] + weight : weight;
    scale[f] = std::max(old, fresh);
    keep[f] = factor(old, scale[f]);
    k[f] = logs ? factor(fresh, scale[f]) : factor(fresh, scale[f]) * given.k[f];
    q[f] = logs ? given.q[f] + scale[f] : given.q[f];
  }
  if (!logs) return {q, k, keep};
  const T top = largest(q, F);
#pragma omp simd
  for (int64_t f = 0; f < F; ++f) q[f] = factor(q[f], top);
  return {q, k, keep};
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
    Arena<T> arena(workspace.data() + omp_get_thread_num() * each);
    Position<T> at{expand_values(shape, in.q, bh, 0, 1, arena),
                   expand_values(shape, in.k, bh, 0, 1, arena), nullptr};
    if (states.scale != nullptr) {
      const T weight = in.weight.data == nullptr ? T(0) : *in.weight.at(bh);
      const T decay = in.decay.data == nullptr ? T(0) : *in.decay.at(bh);
      at = rescale(shape, at, weight, decay, states.scale + bh * F, arena);
    }
    update_and_read(at, in.v.at(bh, 0), states.state + bh * F * M, states.key_sum + bh * F,
                    y + bh * M, F, M);
  });
}

LINEA_KERNEL_TABLE(RecurrentKernels, .recurrent_step = recurrent_step<T>)

}  // namespace linea::cpu

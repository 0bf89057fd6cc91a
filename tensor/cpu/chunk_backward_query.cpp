// The forward sweep of the backward pass: dq, and e for the backward sweep. Formulas in
// tensor/cpu/chunk_backward.h.
#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// dq of one chunk. The contribution of the state is separate from that of the chunk's keys only
// where the state is read with features of its own.
template <typename T>
void query_gradient(ChunkWork<T> chunk, const QueryRows<T>& q, const Reading<T>& past, const T* e,
                    T* dq) {
  const int64_t F = chunk.shape.features, M = chunk.shape.values, C = chunk.rows;
  const Rows<T>& k = chunk.k;
  Arena<T>& arena = chunk.arena;
  const bool logs = q.rows.logs != nullptr;
  // n exp(s - m), then the contribution of the state
  const T* scaled = q.numerator;
  if (past.scale != nullptr) {
    T* copy = arena.take(C * M);
    for (int64_t i = 0; i < C; ++i)
      copy_scaled(q.numerator + i * M, copy + i * M, M, factor(past.scale[i], q.row_scale[i]));
    scaled = copy;
  }
  if (past.state == nullptr) {
    std::fill_n(dq, C * F, T(0));
  } else {
    multiply_transposed(C, F, M, {scaled, M}, past.state, dq, false, arena, chunk.rounded);
    for (int64_t i = 0; i < C; ++i)
      add_row(past.key_sum, dq + i * F, F,
              past.scale == nullptr ? e[i] : e[i] * factor(past.scale[i], q.row_scale[i]));
  }
  T* const inside = gradient_inside(past, dq, C * F, arena);
  T* grads = nullptr;
  if (k.count > 0) {
    grads = arena.take(C * chunk.keys);
    band_products(chunk, M, {q.numerator, M}, chunk.v, grads, arena);
    const T* visible = visible_of(q, chunk);
    T* seen = visible == nullptr ? grads : arena.take(C * chunk.keys);
    add_denominator_gradients(e, visible, chunk, grads, seen);
    add_past(chunk, F, seen, {k.features, F}, inside, F);
  }
  if (logs) multiply_rows(q.rows.features, inside, C * F);
  for (int64_t i = 0; q.by_logs != nullptr && i < C; ++i)
    for (int64_t j = 0; q.by_logs[i] && j < std::min(i + 1, k.count); ++j)
      each_weight(q, k, i, j,
                  [&](int64_t f, T w) { inside[i * F + f] += w * grads[i * k.count + j]; });
  if (past.own_features) add_row(inside, dq, C * F, T(1));
}

}  // namespace

template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                          HeadRows<const T> y, HeadRows<const T> dy, const ChunkRows<T>& saved,
                          const ChunkState<T>& states, HeadRows<T> dq, Strided<T> ddenominator) {
  const ChunkShape shape = with_products(ctx, given, in);
  sweep_forward(ctx, shape, in, states,
                [&](ChunkWork<T> chunk, const StateAccumulator<T>& running) {
                  const int64_t bh = chunk.bh, first = chunk.first;
                  const QueryRows<T> q = queries_of(chunk, in, dy, saved);
                  const Reading<T> past = running.read(q.rows, chunk.empty, chunk.arena);
                  T* e = ddenominator.at(bh, first);  // -(dy_i . y_i) / d_i
                  for (int64_t i = 0; i < chunk.rows; ++i)
                    e[i] = -dot(dy.at(bh, first + i), y.at(bh, first + i), shape.values) *
                           reciprocal_or_zero(q.denominator[i]);
                  T* gradient = chunk.arena.take(chunk.rows * shape.features);
                  query_gradient(chunk, q, past, e, gradient);
                  write_gradient(shape, q.rows.features, gradient, dq, bh, first, chunk.rows);
                });
}

LINEA_KERNEL_TABLE(ChunkBackwardQueryKernels, .chunk_backward_query = chunk_backward_query<T>)

}  // namespace linea::cpu

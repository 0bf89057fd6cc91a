// The sweep forward of the backward pass: dq, and e for the sweep backward. Formulas in
// tensor/cpu/chunk_backward.h.
#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/cpu_kernels.h"

namespace linea::cpu {
namespace {

// dq and e of one chunk. What comes from the state is kept apart from what comes from the chunk's keys only
// where the state has features of its own to be read with.
template <typename T>
void query_gradient(const ChunkShape& shape, const Chunk& chunk, const QueryRows<T>& q, const Rows<T>& k,
                    const ValueRows<T>& v, const Reading<T>& past, T* dq, T* e, Arena<T> arena) {
  const int64_t F = shape.features, M = shape.values, C = chunk.rows;
  const bool logs = q.rows.logs != nullptr;
  // n exp(s - m), and with it the state's part
  T* read_factor = arena.take(C);
  std::fill_n(read_factor, C, T(1));
  const T* scaled = q.numerator;
  if (past.scale != nullptr) {
    T* copy = arena.take(C * M);
    for (int64_t i = 0; i < C; ++i) {
      read_factor[i] = factor(past.scale[i], q.row_scale[i]);
      for (int64_t m = 0; m < M; ++m) copy[i * M + m] = read_factor[i] * q.numerator[i * M + m];
    }
    scaled = copy;
  }
  if (past.state == nullptr) {
    std::fill_n(dq, C * F, T(0));
  } else {
    multiply_transposed(C, F, M, scaled, past.state, dq, false, arena);
  }
  T* inside = dq;
  if (past.own_features) {
    multiply_rows(past.features, dq, C * F);
    inside = arena.take(C * F);
    std::fill_n(inside, C * F, T(0));
  }
  T* products = arena.take(C * chunk.keys);  // n_i . v_j
  const T* visible = nullptr;
  if (k.count > 0) {
    band_products(chunk, M, {q.numerator, M}, v, products, arena);
    T* seen = arena.take(C * chunk.keys);
    std::copy_n(products, C * chunk.keys, seen);
    visible = visible_of(q, k, chunk, arena);
    apply_visible(visible, chunk, seen);
    add_past(chunk, F, seen, {k.features, F}, inside, F);
  }
  T *running = arena.take(F), *weights = arena.take(F), *sums = arena.take(F);
  std::fill_n(running, F, T(0));  // z_i without the chunks before, times exp(-most)
  T most = kNothing<T>;
  for (int64_t i = 0; i < C; ++i) {
    T *row = dq + i * F, *row_inside = inside + i * F;
    const T* features = q.rows.features + i * F;
    if (i < k.count) {
      const T o = k.offset == nullptr ? T(0) : k.offset[i];
      if (o > most) {
        if (most != kNothing<T>) scale_row(running, F, exp_of(most - o));
        most = o;
      }
      add_row(k.features + i * F, running, F, factor(o, most));
    }
    const bool by_logs = q.by_logs != nullptr && q.by_logs[i];
    T total = dot(features, row_inside, F);
    if (past.own_features)
      for (int64_t f = 0; f < F; ++f) total += row[f];
    if (by_logs) {
      std::fill_n(weights, F, T(0));
      std::fill_n(sums, F, T(0));
      for (int64_t j = 0; j < std::min(i + 1, k.count); ++j) {
        const T product = products[i * k.count + j];
        each_weight(q, k, i, j, [&](int64_t f, T w) {
          weights[f] += w;
          sums[f] += w * product;
        });
      }
      for (int64_t f = 0; f < F; ++f) total += sums[f];
    }
    e[i] = -total * reciprocal_or_zero(q.denominator[i]);

    if (past.own_features) {
      const T by = e[i] * read_factor[i];
      for (int64_t f = 0; f < F; ++f) row[f] += by * past.features[i * F + f] * past.key_sum[f];
    } else if (past.state != nullptr) {
      add_row(past.key_sum, row, F, e[i] * read_factor[i]);
    }
    if (!by_logs && most != kNothing<T>)
      add_row(running, row_inside, F, q.row_scale == nullptr ? e[i] : e[i] * factor(most, q.row_scale[i]));
    if (logs) multiply_rows(features, row_inside, F);
    if (past.own_features) add_row(row_inside, row, F, T(1));
    if (by_logs)
      for (int64_t f = 0; f < F; ++f) row[f] += sums[f] + e[i] * weights[f];
  }
}

}  // namespace

template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, HeadRows<const T> dy,
                          const ChunkRows<T>& kept, const ChunkState<T>& states, HeadRows<T> dq,
                          Strided<T> ddenominator) {
  const Workspace<bool> flags(ctx, ctx.threads * shape.chunk);
  sweep_forward(ctx, shape, in, states,
                [&](int64_t pair, int thread, const Chunk& chunk, const Rows<T>& k, const Carried<T>& carried,
                    bool empty, Arena<T> arena) {
                  const QueryRows<T> q = queries_of(shape, in, pair, chunk, k, dy, kept, arena,
                                                    flags.data() + thread * shape.chunk);
                  const Reading<T> past = carried.read(q.rows, empty, arena);
                  T* gradient = arena.take(chunk.rows * shape.features);
                  query_gradient(shape, chunk, q, k, value_rows(in.v, pair, chunk.first), past, gradient,
                                 ddenominator.pair(pair) + chunk.first, arena);
                  write_gradient(shape, q.rows.features, gradient, dq, pair, chunk.first, chunk.rows);
                });
}

#define LINEA_INSTANTIATE(T)                                                                                  \
  template void chunk_backward_query(Context&, const ChunkShape&, const ChunkInput<T>&, HeadRows<const T>,    \
                                     const ChunkRows<T>&, const ChunkState<T>&, HeadRows<T>, Strided<T>);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu

// The backward pass of the sum rule over a segment. With w_ij = (q_i . k_j) exp(o_j - m_i) the weights that
// the forward pass summed, d_i = sum_j w_ij and y_i = sum_j w_ij v_j / d_i (tensor/cpu/chunk.h):
//
//   n_i = dy_i / d_i    e_i = -(dy_i . y_i) / d_i    dw_ij = n_i . v_j + e_i
//   dq_i = sum_j dw_ij exp(o_j - m_i) k_j     dk_j = sum_i dw_ij exp(o_j - m_i) q_i     dv_j = sum_i w_ij n_i
//
// The sweep forward finds dq and e from the states S, z; the sweep backward dk and dv from the states
// R = sum q^T n and r = sum e q of the rows after. Of logs a gradient is that of the log: q o dq, k o dk.
// The scales are constants here: they cancel. A key's weight as a whole gets sum_i w_ij dw_ij = k_j . dk_j.
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/cpu_kernels.h"

namespace linea::cpu {
namespace {

// What both sweeps know of the queries of a chunk.
template <typename T>
struct QueryRows {
  Rows<T> rows;             // with offset -m_i
  const T* denominator;     // d
  const T* row_scale;       // m; null where nothing is scaled
  const T* numerator;       // n
  const bool* by_logs;      // rows whose part inside the chunk the forward pass summed by logs; null: none
};

// n = dy / d
template <typename T>
T* numerator_gradient(const Chunk& chunk, int64_t M, const T* dy, const T* denominator, Arena<T>& arena) {
  T* numerator = arena.take(chunk.rows * M);
  for (int64_t i = 0; i < chunk.rows; ++i) {
    const T inverse = reciprocal_or_zero(denominator[i]);
    for (int64_t m = 0; m < M; ++m) numerator[i * M + m] = dy[i * M + m] * inverse;
  }
  return numerator;
}

template <typename T>
QueryRows<T> queries_of(const ChunkShape& shape, const ChunkInput<T>& in, int64_t pair, const Chunk& chunk,
                        const Rows<T>& k, Strided<const T> dy, const ChunkRows<T>& kept, Arena<T>& arena,
                        bool* by_logs) {
  const int64_t row = pair * shape.length + chunk.first;
  QueryRows<T> q{expand(in.q + row * shape.features, chunk.rows, shape.features, shape.kind, arena),
                 kept.denominator.pair(pair) + chunk.first, nullptr, nullptr, nullptr};
  q.numerator = numerator_gradient(chunk, shape.values, dy.pair(pair) + chunk.first * shape.values,
                                   q.denominator, arena);
  if (kept.scale.data == nullptr) return q;
  q.row_scale = kept.scale.pair(pair) + chunk.first;
  T *offset = arena.take(chunk.rows), most = kNothing<T>;
  for (int64_t i = 0; i < chunk.rows; ++i) {
    offset[i] = -q.row_scale[i];
    if (i < k.count) most = std::max(most, k.offset[i]);
    by_logs[i] = q.rows.logs != nullptr && q.row_scale[i] < most;  // else m_i is at least the largest
  }
  q.rows.offset = offset;
  q.by_logs = by_logs;
  return q;
}

// visible[i,j] = exp(o_j - m_i); 1 where nothing is scaled: then null is returned.
template <typename T>
const T* visible_of(const QueryRows<T>& q, const Rows<T>& k, const Chunk& chunk, Arena<T>& arena) {
  if (q.row_scale == nullptr) return nullptr;
  T* visible = arena.take(chunk.rows * chunk.keys);
  weigh_visible(k.offset, q.row_scale, chunk, visible, [&](int64_t i) { return q.by_logs[i]; });
  return visible;
}

template <typename T>
void apply_visible(const T* visible, const Chunk& chunk, T* scores) {
  if (visible == nullptr) return keep_past(scores, chunk);
  for (int64_t i = 0; i < chunk.rows * chunk.keys; ++i)
    scores[i] = visible[i] == T(0) ? T(0) : scores[i] * visible[i];
}

// w_ijf of the row i and the key j, feature by feature, from the logs; body(f, w).
template <typename T, typename Body>
void each_weight(const QueryRows<T>& q, const Rows<T>& k, int64_t i, int64_t j, const Body& body) {
  const T *logs_q = q.rows.logs + i * k.F, *logs_k = k.logs + j * k.F;
  const T rest = k.offset[j] - k.top[j] - q.rows.top[i] - q.row_scale[i];
  for (int64_t f = 0; f < k.F; ++f) body(f, exp_of(logs_q[f] + logs_k[f] + rest));
}

template <typename T>
void multiply_rows(const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] *= x[i];
}

// dq and e of one chunk. What comes from the state is kept apart from what comes from the chunk's keys only
// where the state has features of its own to be read with.
template <typename T>
void query_gradient(const ChunkShape& shape, const Chunk& chunk, const QueryRows<T>& q, const Rows<T>& k,
                    const T* v, const Reading<T>& past, T* dq, T* e, Arena<T> arena) {
  const int64_t F = shape.features, M = shape.values, C = chunk.rows;
  const bool logs = q.rows.logs != nullptr;
  // n exp(s - m), and with it the state's part
  T* read_factor = arena.take(C);
  T* scaled = arena.take(C * M);
  for (int64_t i = 0; i < C; ++i) {
    read_factor[i] = past.scale == nullptr ? T(1) : factor(past.scale[i], q.row_scale[i]);
    for (int64_t m = 0; m < M; ++m) scaled[i * M + m] = read_factor[i] * q.numerator[i * M + m];
  }
  if (past.state == nullptr) {
    std::fill_n(dq, C * F, T(0));
  } else {
    blas_gemm(false, true, C, F, M, T(1), scaled, M, past.state, M, T(0), dq, F);
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
    blas_gemm(false, true, C, k.count, M, T(1), q.numerator, M, v, M, T(0), products, k.count);
    T* seen = arena.take(C * chunk.keys);
    std::copy_n(products, C * chunk.keys, seen);
    visible = visible_of(q, k, chunk, arena);
    apply_visible(visible, chunk, seen);
    blas_gemm(false, false, C, F, k.count, T(1), seen, k.count, k.features, F, T(1), inside, F);
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

// What the rows of later chunks give: dk = w (v R^T + r), dv = w k R, w the weight of a key in the states.
template <typename T>
void read_slopes(const Rows<T>& k, const T* v, const Reading<T>& later, int64_t M, T* dk, T* dv, Arena<T>& arena) {
  const int64_t F = k.F;
  T *scaled = arena.take(k.count * M), *weight = arena.take(k.count);
  for (int64_t j = 0; j < k.count; ++j) {
    weight[j] = T(1);
    if (later.scale != nullptr) weight[j] = factor(later.scale[j], -k.offset[j]);
    for (int64_t m = 0; m < M; ++m) scaled[j * M + m] = weight[j] * v[j * M + m];
    for (int64_t f = 0; f < F; ++f) dk[j * F + f] = weight[j] * later.key_sum[f];
  }
  blas_gemm(false, true, k.count, F, M, T(1), scaled, M, later.state, M, T(1), dk, F);
  blas_gemm(false, false, k.count, M, F, T(1), later.features, F, later.state, M, T(0), dv, M);
  for (int64_t j = 0; j < k.count; ++j) scale_row(dv + j * M, M, weight[j]);
}

// dk, dv and, where asked, the gradient of the keys' weights, of one chunk.
template <typename T>
void key_gradient(const ChunkShape& shape, const Chunk& chunk, const QueryRows<T>& q, const Rows<T>& k, const T* v,
                  const T* e, const Reading<T>& later, T* dk, T* dv, T* dweight, Arena<T> arena) {
  const int64_t F = shape.features, M = shape.values, K = chunk.keys;
  std::fill(dk + K * F, dk + chunk.rows * F, T(0));
  std::fill(dv + K * M, dv + chunk.rows * M, T(0));
  if (dweight != nullptr) std::fill(dweight + K, dweight + chunk.rows, T(0));
  if (K == 0) return;

  if (later.state == nullptr) {
    std::fill_n(dk, K * F, T(0));
    std::fill_n(dv, K * M, T(0));
  } else {
    read_slopes(k, v, later, M, dk, dv, arena);
  }
  T* inside = dk;
  if (later.own_features) {
    multiply_rows(later.features, dk, K * F);
    inside = arena.take(K * F);
    std::fill_n(inside, K * F, T(0));
  }
  T* products = nullptr;
  if (q.numerator != nullptr) {
    const T* visible = visible_of(q, k, chunk, arena);
    products = arena.take(chunk.rows * K);  // dw_ij
    T* seen = arena.take(chunk.rows * K);
    blas_gemm(false, true, chunk.rows, K, M, T(1), q.numerator, M, v, M, T(0), products, K);
    for (int64_t i = 0; i < chunk.rows; ++i)
      for (int64_t j = 0; j < K; ++j) products[i * K + j] += e[i];
    std::copy_n(products, chunk.rows * K, seen);
    apply_visible(visible, chunk, seen);
    blas_gemm(true, false, K, F, chunk.rows, T(1), seen, K, q.rows.features, F, T(1), inside, F);
    blas_gemm(false, true, chunk.rows, K, F, T(1), q.rows.features, F, k.features, F, T(0), seen, K);
    apply_visible(visible, chunk, seen);
    blas_gemm(true, false, K, M, chunk.rows, T(1), seen, K, q.numerator, M, T(1), dv, M);
  }
  if (k.logs != nullptr) multiply_rows(k.features, inside, K * F);
  if (later.own_features) add_row(inside, dk, K * F, T(1));
  for (int64_t i = 0; q.by_logs != nullptr && i < chunk.rows; ++i) {
    if (!q.by_logs[i]) continue;
    for (int64_t j = 0; j < std::min(i + 1, K); ++j) {
      const T slope = products[i * K + j];
      T whole = 0;
      each_weight(q, k, i, j, [&](int64_t f, T w) {
        dk[j * F + f] += w * slope;
        whole += w;
      });
      add_row(q.numerator + i * M, dv + j * M, M, whole);
    }
  }
  if (dweight == nullptr) return;
  for (int64_t j = 0; j < K; ++j) {
    T total = 0;
    if (k.logs == nullptr) total = dot(k.features + j * F, dk + j * F, F);
    else
      for (int64_t f = 0; f < F; ++f) total += dk[j * F + f];
    dweight[j] = total;
  }
}

}  // namespace

// The sweep forward: dq, and e for the sweep backward.
template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, Strided<const T> dy,
                          const ChunkRows<T>& kept, const ChunkState<T>& states, T* dq,
                          Strided<T> ddenominator) {
  const int64_t F = shape.features, M = shape.values;
  const bool scaled = states.scale != nullptr;
  const int64_t each = chunk_workspace(shape);
  const Workspace<T> workspace(ctx, ctx.threads * each);
  const Workspace<bool> flags(ctx, ctx.threads * shape.chunk);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    Carried<T> carried(states, pair, F, M);
    for (int64_t index = 0; index < chunk_count(shape); ++index) {
      Arena<T> arena(workspace.data() + thread * each);
      const Chunk chunk = chunk_at(shape, pair, index);
      const Keys<T> keys = in.k == nullptr ? Keys<T>{} : keys_of(shape, in, pair, chunk, scaled, arena);
      const T* v = in.k == nullptr ? nullptr : in.v.pair(pair) + chunk.first * M;
      if (in.q != nullptr) {
        Arena<T> mine = arena;
        const QueryRows<T> q = queries_of(shape, in, pair, chunk, keys.rows, dy, kept, mine,
                                          flags.data() + thread * shape.chunk);
        const Reading<T> past = carried.read(q.rows, shape.starts && index == 0, mine);
        query_gradient(shape, chunk, q, keys.rows, v, past, dq + (pair * shape.length + chunk.first) * F,
                       ddenominator.pair(pair) + chunk.first, mine);
      }
      if (shape.ends && index + 1 == chunk_count(shape)) break;
      carried.absorb(keys.rows, v, nullptr, arena);
      carried.decay(keys.decay);
    }
  });
}

// The sweep backward: dk and dv, from the slopes of the states.
template <typename T>
void chunk_backward_key(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, Strided<const T> dy,
                        const ChunkRows<T>& kept, Strided<const T> ddenominator, const ChunkState<T>& slopes,
                        T* dk, Strided<T> dweight, Strided<T> dv) {
  const int64_t F = shape.features, M = shape.values;
  const bool scaled = slopes.scale != nullptr;
  const int64_t each = chunk_workspace(shape);
  const Workspace<T> workspace(ctx, ctx.threads * each);
  const Workspace<bool> flags(ctx, ctx.threads * shape.chunk);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    Carried<T> carried(slopes, pair, F, M);
    for (int64_t index = chunk_count(shape) - 1; index >= 0; --index) {
      Arena<T> arena(workspace.data() + thread * each);
      const Chunk chunk = chunk_at(shape, pair, index);
      const Keys<T> keys = in.k == nullptr ? Keys<T>{} : keys_of(shape, in, pair, chunk, scaled, arena);
      const T* e = in.q == nullptr ? nullptr : ddenominator.pair(pair) + chunk.first;
      QueryRows<T> q{};
      if (in.q != nullptr)
        q = queries_of(shape, in, pair, chunk, keys.rows, dy, kept, arena, flags.data() + thread * shape.chunk);
      if (in.k != nullptr) {
        carried.decay(keys.decay);
        Arena<T> mine = arena;
        const Reading<T> later = carried.read(keys.rows, shape.starts && index + 1 == chunk_count(shape), mine);
        const int64_t row = pair * shape.length + chunk.first;
        key_gradient(shape, chunk, q, keys.rows, in.v.pair(pair) + chunk.first * M, e, later, dk + row * F,
                     dv.pair(pair) + chunk.first * M,
                     dweight.data == nullptr ? nullptr : dweight.pair(pair) + chunk.first, mine);
      }
      if (in.q != nullptr && !(shape.ends && index == 0)) carried.absorb(q.rows, q.numerator, e, arena);
    }
  });
}

#define LINEA_INSTANTIATE(T)                                                                                  \
  template void chunk_backward_query(Context&, const ChunkShape&, const ChunkInput<T>&, Strided<const T>,     \
                                     const ChunkRows<T>&, const ChunkState<T>&, T*, Strided<T>);              \
  template void chunk_backward_key(Context&, const ChunkShape&, const ChunkInput<T>&, Strided<const T>,       \
                                   const ChunkRows<T>&, Strided<const T>, const ChunkState<T>&, T*,           \
                                   Strided<T>, Strided<T>);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu

// Linear attention by the sum rule, one segment at a time: chunks as matrix products, a state carried
// between them. Row vectors throughout; for one pair, with S the state [F,M] and z the key sum [F]:
//
//   S_i = S_{i-1} + k_i^T v_i     z_i = z_{i-1} + k_i     d_i = q_i z_i^T     y_i = q_i S_i / d_i
//
// The denominator is one more value column of ones, so its gradient e_i = dL/dd_i rides along with
// n_i = dy_i / d_i, the gradient of the numerator:
//
//   dq_i = n_i S_i^T + e_i z_i         e_i = -(dy_i . y_i) / d_i = -(q_i . n_i S_i^T) / d_i
//   R_j  = sum_{i >= j} q_i^T n_i      r_j = sum_{i >= j} e_i q_i
//   dk_j = v_j R_j^T + r_j             dv_j = k_j R_j
//
// dq needs the states of a sweep forward, dk and dv those of a sweep backward; nothing is kept but q, k,
// v and one d_i (and e_i) a row. Without causality every S_i is the whole sum: a sweep that only
// absorbs, then one that only reads.
#include "tensor/cpu/blas.h"
#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

// One chunk of one pair: where it starts in its segment, its rows, and its keys that exist.
struct Chunk {
  int64_t first, rows, keys;
};

Chunk chunk_at(const ChunkShape& shape, int64_t pair, int64_t index) {
  const int64_t first = index * shape.chunk;
  const int64_t rows = std::min(shape.chunk, shape.length - first);
  const int64_t valid = valid_keys(shape.valid, pair, shape.first + shape.length) - shape.first;
  return {first, rows, std::clamp<int64_t>(valid - first, 0, rows)};
}

int64_t chunk_count(const ChunkShape& shape) {
  return (shape.length + shape.chunk - 1) / shape.chunk;
}

// Zeroes what row i of a [rows, keys] matrix must not see: columns above i.
template <typename T>
void keep_past(T* scores, const Chunk& chunk) {
  for (int64_t i = 0; i < chunk.rows; ++i)
    for (int64_t j = i + 1; j < chunk.keys; ++j) scores[i * chunk.keys + j] = T(0);
}

template <typename T>
void add_row(const T* x, T* y, int64_t count, T factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

template <typename T>
T dot(const T* x, const T* y, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) total += x[i] * y[i];
  return total;
}

// z += sum_j w_j x_j, every w_j = 1 where `weight` is null. The chunk is summed first: small terms added to
// a large z one by one are all rounded the same way, an error that grows with the length.
template <typename T>
void add_chunk(const T* x, const T* weight, int64_t rows, int64_t F, T* z) {
  constexpr int64_t kBlock = 64;
  for (int64_t begin = 0; begin < F; begin += kBlock) {
    const int64_t width = std::min(kBlock, F - begin);
    T total[kBlock] = {};
    for (int64_t j = 0; j < rows; ++j)
      add_row(x + j * F + begin, total, width, weight == nullptr ? T(1) : weight[j]);
    add_row(total, z + begin, width, T(1));
  }
}

// S += k^T v,  z += sum of the rows of k
template <typename T>
void absorb(const ChunkShape& shape, const Chunk& chunk, const T* k, const T* v, T* state,
            T* key_sum) {
  if (chunk.keys == 0) return;
  const int64_t F = shape.features, M = shape.values;
  blas_gemm(true, false, F, M, chunk.keys, T(1), k, F, v, M, T(1), state, M);
  add_chunk<T>(k, nullptr, chunk.keys, F, key_sum);
}

// n = dy / d
template <typename T>
void numerator_gradient(const ChunkShape& shape, const Chunk& chunk, const T* dy, const T* denominator,
                        T* numerator) {
  const int64_t M = shape.values;
  for (int64_t i = 0; i < chunk.rows; ++i) {
    const T inverse = reciprocal_or_zero(denominator[i]);
    for (int64_t m = 0; m < M; ++m) numerator[i * M + m] = dy[i * M + m] * inverse;
  }
}

// y = q S / (q z), the part inside the chunk by the masked product q k^T
template <typename T>
void read_chunk(const ChunkShape& shape, const Chunk& chunk, const T* q, const T* k, const T* v,
                const T* state, const T* key_sum, T* y, T* denominator, T* scores) {
  const int64_t F = shape.features, M = shape.values;
  blas_gemm(false, false, chunk.rows, M, F, T(1), q, F, state, M, T(0), y, M);
  for (int64_t i = 0; i < chunk.rows; ++i) denominator[i] = dot(q + i * F, key_sum, F);
  if (k != nullptr && chunk.keys > 0) {
    blas_gemm(false, true, chunk.rows, chunk.keys, F, T(1), q, F, k, F, T(0), scores, chunk.keys);
    keep_past(scores, chunk);
    blas_gemm(false, false, chunk.rows, M, chunk.keys, T(1), scores, chunk.keys, v, M, T(1), y, M);
    for (int64_t i = 0; i < chunk.rows; ++i)
      for (int64_t j = 0; j < std::min(i + 1, chunk.keys); ++j)
        denominator[i] += scores[i * chunk.keys + j];
  }
  for (int64_t i = 0; i < chunk.rows; ++i) {
    const T inverse = reciprocal_or_zero(denominator[i]);
    for (int64_t m = 0; m < M; ++m) y[i * M + m] *= inverse;
  }
}

}  // namespace

template <typename T>
void chunk_forward(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                   Strided<const T> v, T* state, T* key_sum, Strided<T> y, Strided<T> denominator) {
  const int64_t F = shape.features, M = shape.values, C = shape.chunk;
  const Workspace<T> workspace(ctx, ctx.threads * C * C);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    T* scores = workspace.data() + thread * C * C;
    T *pair_state = state + pair * F * M, *pair_sum = key_sum + pair * F;
    for (int64_t index = 0; index < chunk_count(shape); ++index) {
      const Chunk chunk = chunk_at(shape, pair, index);
      const int64_t row = pair * shape.length + chunk.first;
      const T* chunk_k = k == nullptr ? nullptr : k + row * F;
      const T* chunk_v = k == nullptr ? nullptr : v.pair(pair) + chunk.first * M;
      if (q != nullptr)
        read_chunk(shape, chunk, q + row * F, chunk_k, chunk_v, pair_state, pair_sum,
                   y.pair(pair) + chunk.first * M, denominator.pair(pair) + chunk.first, scores);
      if (k != nullptr) absorb(shape, chunk, chunk_k, chunk_v, pair_state, pair_sum);
    }
  });
}

// The sweep forward: dq, and e for the sweep backward.
template <typename T>
void chunk_backward_query(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                          Strided<const T> v, Strided<const T> dy, Strided<const T> denominator,
                          T* state, T* key_sum, T* dq, Strided<T> ddenominator) {
  const int64_t F = shape.features, M = shape.values, C = shape.chunk;
  const int64_t each = C * C + C * M + F;
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    T* scores = workspace.data() + thread * each;
    T *numerator = scores + C * C, *running = numerator + C * M;
    T *pair_state = state + pair * F * M, *pair_sum = key_sum + pair * F;
    for (int64_t index = 0; index < chunk_count(shape); ++index) {
      const Chunk chunk = chunk_at(shape, pair, index);
      const int64_t row = pair * shape.length + chunk.first;
      const T* chunk_k = k == nullptr ? nullptr : k + row * F;
      const T* chunk_v = k == nullptr ? nullptr : v.pair(pair) + chunk.first * M;
      if (q != nullptr) {
        const T* d = denominator.pair(pair) + chunk.first;
        T *e = ddenominator.pair(pair) + chunk.first, *chunk_dq = dq + row * F;
        numerator_gradient(shape, chunk, dy.pair(pair) + chunk.first * M, d, numerator);
        blas_gemm(false, true, chunk.rows, F, M, T(1), numerator, M, pair_state, M, T(0), chunk_dq,
                  F);
        if (k != nullptr && chunk.keys > 0) {
          blas_gemm(false, true, chunk.rows, chunk.keys, M, T(1), numerator, M, chunk_v, M, T(0),
                    scores, chunk.keys);
          keep_past(scores, chunk);
          blas_gemm(false, false, chunk.rows, F, chunk.keys, T(1), scores, chunk.keys, chunk_k, F,
                    T(1), chunk_dq, F);
        }
        std::fill_n(running, F, T(0));  // z_i without the chunks before
        for (int64_t i = 0; i < chunk.rows; ++i) {
          if (k != nullptr && i < chunk.keys) add_row(chunk_k + i * F, running, F, T(1));
          e[i] = -dot(q + (row + i) * F, chunk_dq + i * F, F) * reciprocal_or_zero(d[i]);
          add_row(pair_sum, chunk_dq + i * F, F, e[i]);
          add_row(running, chunk_dq + i * F, F, e[i]);
        }
      }
      if (k != nullptr) absorb(shape, chunk, chunk_k, chunk_v, pair_state, pair_sum);
    }
  });
}

// The sweep backward: dk and dv. dstate is R, dkey_sum is r.
template <typename T>
void chunk_backward_key(Context& ctx, const ChunkShape& shape, const T* q, const T* k,
                        Strided<const T> v, Strided<const T> dy, Strided<const T> denominator,
                        Strided<const T> ddenominator, T* dstate, T* dkey_sum, T* dk,
                        Strided<T> dv) {
  const int64_t F = shape.features, M = shape.values, C = shape.chunk;
  const int64_t each = C * C + C * M;
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    T* scores = workspace.data() + thread * each;
    T* numerator = scores + C * C;
    T *R = dstate + pair * F * M, *r = dkey_sum + pair * F;
    for (int64_t index = chunk_count(shape) - 1; index >= 0; --index) {
      const Chunk chunk = chunk_at(shape, pair, index);
      const int64_t row = pair * shape.length + chunk.first;
      const T* chunk_q = q == nullptr ? nullptr : q + row * F;
      const T* e = q == nullptr ? nullptr : ddenominator.pair(pair) + chunk.first;
      if (q != nullptr)
        numerator_gradient(shape, chunk, dy.pair(pair) + chunk.first * M,
                           denominator.pair(pair) + chunk.first, numerator);
      if (k != nullptr) {
        const T *chunk_k = k + row * F, *chunk_v = v.pair(pair) + chunk.first * M;
        T *chunk_dk = dk + row * F, *chunk_dv = dv.pair(pair) + chunk.first * M;
        std::fill(chunk_dk + chunk.keys * F, chunk_dk + chunk.rows * F, T(0));
        std::fill(chunk_dv + chunk.keys * M, chunk_dv + chunk.rows * M, T(0));
        for (int64_t j = 0; j < chunk.keys; ++j) std::copy_n(r, F, chunk_dk + j * F);
        if (chunk.keys > 0) {
          blas_gemm(false, true, chunk.keys, F, M, T(1), chunk_v, M, R, M, T(1), chunk_dk, F);
          blas_gemm(false, false, chunk.keys, M, F, T(1), chunk_k, F, R, M, T(0), chunk_dv, M);
        }
        if (q != nullptr && chunk.keys > 0) {
          // inside the chunk: dk_j += sum_{i >= j} (n_i . v_j + e_i) q_i,  dv_j += sum (q_i . k_j) n_i
          blas_gemm(false, true, chunk.rows, chunk.keys, M, T(1), numerator, M, chunk_v, M, T(0),
                    scores, chunk.keys);
          for (int64_t i = 0; i < chunk.rows; ++i)
            for (int64_t j = 0; j < chunk.keys; ++j) scores[i * chunk.keys + j] += e[i];
          keep_past(scores, chunk);
          blas_gemm(true, false, chunk.keys, F, chunk.rows, T(1), scores, chunk.keys, chunk_q, F,
                    T(1), chunk_dk, F);
          blas_gemm(false, true, chunk.rows, chunk.keys, F, T(1), chunk_q, F, chunk_k, F, T(0),
                    scores, chunk.keys);
          keep_past(scores, chunk);
          blas_gemm(true, false, chunk.keys, M, chunk.rows, T(1), scores, chunk.keys, numerator, M,
                    T(1), chunk_dv, M);
        }
      }
      if (q != nullptr) {
        blas_gemm(true, false, F, M, chunk.rows, T(1), chunk_q, F, numerator, M, T(1), R, M);
        add_chunk(chunk_q, e, chunk.rows, F, r);
      }
    }
  });
}

// S += k^T v, z += k, y = q S / (q z), each element of the state touched once.
template <typename T>
void recurrent_step(Context& ctx, const T* q, const T* k, const T* v, T* state, T* key_sum, T* y,
                    int64_t P, int64_t F, int64_t M) {
  parallel_ranges(ctx, P, 4 * F * M, [&](int64_t first, int64_t last) {
    for (int64_t pair = first; pair < last; ++pair) {
      const T *pair_q = q + pair * F, *pair_k = k + pair * F, *pair_v = v + pair * M;
      T *out = y + pair * M, *sum = key_sum + pair * F;
      std::fill_n(out, M, T(0));
      for (int64_t f = 0; f < F; ++f) {
        T* row = state + (pair * F + f) * M;
        const T weight_k = pair_k[f], weight_q = pair_q[f];
#pragma omp simd
        for (int64_t m = 0; m < M; ++m) {
          row[m] += weight_k * pair_v[m];
          out[m] += weight_q * row[m];
        }
        sum[f] += weight_k;
      }
      const T inverse = reciprocal_or_zero(dot(pair_q, sum, F));
      for (int64_t m = 0; m < M; ++m) out[m] *= inverse;
    }
  });
}

#define LINEA_INSTANTIATE(T)                                                                      \
  template void chunk_forward(Context&, const ChunkShape&, const T*, const T*, Strided<const T>,  \
                              T*, T*, Strided<T>, Strided<T>);                                    \
  template void chunk_backward_query(Context&, const ChunkShape&, const T*, const T*,             \
                                     Strided<const T>, Strided<const T>, Strided<const T>, T*,    \
                                     T*, T*, Strided<T>);                                         \
  template void chunk_backward_key(Context&, const ChunkShape&, const T*, const T*,               \
                                   Strided<const T>, Strided<const T>, Strided<const T>,          \
                                   Strided<const T>, T*, T*, T*, Strided<T>);                     \
  template void recurrent_step(Context&, const T*, const T*, const T*, T*, T*, T*, int64_t,       \
                               int64_t, int64_t);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu

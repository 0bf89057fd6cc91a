// Softmax attention in blocks of queries. For one pair, with a_ij = exp(s q_i.k_j - l_i) and
// l_i = log sum_j exp(s q_i.k_j) over the keys that i sees:
//
//   y_i = sum_j a_ij v_j
//   dv_j = sum_i a_ij dy_i      g_ij = a_ij (dy_i.v_j - dy_i.y_i)
//   dq_i = s sum_j g_ij k_j     dk_j = s sum_i g_ij q_i          (Vaswani 2017; Rabe & Staats 2021)
//
// Only l is kept for the backward, which makes a again block by block.
#include <cmath>

#include "tensor/cpu/blas.h"
#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

// Queries a block: the fewer, the longer the row of scores.
int64_t block_rows(const SoftmaxShape& shape) {
  const int64_t rows = std::clamp<int64_t>(262144 / std::max<int64_t>(shape.keys, 1), 16, 64);
  return std::min(rows, shape.queries);
}

// Keys that query i of a pair sees: the first so many.
int64_t seen_by(const SoftmaxShape& shape, int64_t pair, int64_t query) {
  int64_t seen = valid_keys(shape.valid, pair, shape.keys);
  if (shape.causal) seen = std::min(seen, query + 1 + shape.keys - shape.queries);
  return std::max<int64_t>(seen, 0);
}

// s q k^T for `rows` queries from `first` on, over the `seen` keys that the last of them sees
template <typename T>
void block_scores(const SoftmaxShape& shape, const T* q, const T* k, int64_t rows, int64_t seen,
                  T* scores) {
  const int64_t D = shape.key_size;
  blas_gemm(false, true, rows, seen, D, static_cast<T>(shape.scale), q, D, k, D, T(0), scores, seen);
}

}  // namespace

template <typename T>
void softmax_attention(Context& ctx, const SoftmaxShape& shape, const T* q, const T* k, const T* v,
                       T* y, T* log_sums) {
  const int64_t D = shape.key_size, M = shape.value_size, block = block_rows(shape);
  const int64_t each = block * shape.keys;
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    T* scores = workspace.data() + thread * each;
    const T *pair_k = k + pair * shape.key_stride, *pair_v = v + pair * shape.value_stride;
    for (int64_t first = 0; first < shape.queries; first += block) {
      const int64_t rows = std::min(block, shape.queries - first);
      const int64_t seen = seen_by(shape, pair, first + rows - 1);
      const int64_t row = pair * shape.queries + first;
      if (seen == 0) {
        std::fill_n(y + row * M, rows * M, T(0));
        std::fill_n(log_sums + row, rows, T(0));
        continue;
      }
      block_scores(shape, q + row * D, pair_k, rows, seen, scores);
      for (int64_t i = 0; i < rows; ++i) {
        T* a = scores + i * seen;
        const int64_t count = seen_by(shape, pair, first + i);
        const T largest = count > 0 ? *std::max_element(a, a + count) : T(0);
        T total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < count; ++j) {
          a[j] = exp_of(a[j] - largest);
          total += a[j];
        }
        const T inverse = reciprocal_or_zero(total);
        for (int64_t j = 0; j < count; ++j) a[j] *= inverse;
        std::fill(a + count, a + seen, T(0));
        log_sums[row + i] = count > 0 ? largest + std::log(total) : T(0);
      }
      blas_gemm(false, false, rows, M, seen, T(1), scores, seen, pair_v, M, T(0), y + row * M, M);
    }
  });
}

template <typename T>
void softmax_attention_backward(Context& ctx, const SoftmaxShape& shape, const T* q, const T* k,
                                const T* v, const T* y, const T* log_sums, const T* dy, T* dq,
                                T* dk, T* dv) {
  const int64_t D = shape.key_size, M = shape.value_size, block = block_rows(shape);
  const int64_t each = 2 * block * shape.keys;
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.pairs, [&](int64_t pair, int thread) {
    T* weights = workspace.data() + thread * each;
    T* slopes = weights + block * shape.keys;
    const T *pair_k = k + pair * shape.key_stride, *pair_v = v + pair * shape.value_stride;
    T *pair_dk = dk + pair * shape.key_stride, *pair_dv = dv + pair * shape.value_stride;
    std::fill_n(pair_dk, shape.keys * D, T(0));
    std::fill_n(pair_dv, shape.keys * M, T(0));
    for (int64_t first = 0; first < shape.queries; first += block) {
      const int64_t rows = std::min(block, shape.queries - first);
      const int64_t seen = seen_by(shape, pair, first + rows - 1);
      const int64_t row = pair * shape.queries + first;
      if (seen == 0) {
        std::fill_n(dq + row * D, rows * D, T(0));
        continue;
      }
      block_scores(shape, q + row * D, pair_k, rows, seen, weights);
      blas_gemm(false, true, rows, seen, M, T(1), dy + row * M, M, pair_v, M, T(0), slopes, seen);
      for (int64_t i = 0; i < rows; ++i) {
        T *a = weights + i * seen, *g = slopes + i * seen;
        const int64_t count = seen_by(shape, pair, first + i);
        const T shift = log_sums[row + i];
        T along = 0;
        for (int64_t m = 0; m < M; ++m) along += dy[(row + i) * M + m] * y[(row + i) * M + m];
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) {
          a[j] = exp_of(a[j] - shift);
          g[j] = a[j] * (g[j] - along);
        }
        std::fill(a + count, a + seen, T(0));
        std::fill(g + count, g + seen, T(0));
      }
      const T s = static_cast<T>(shape.scale);
      blas_gemm(false, false, rows, D, seen, s, slopes, seen, pair_k, D, T(0), dq + row * D, D);
      blas_gemm(true, false, seen, D, rows, s, slopes, seen, q + row * D, D, T(1), pair_dk, D);
      blas_gemm(true, false, seen, M, rows, T(1), weights, seen, dy + row * M, M, T(1), pair_dv, M);
    }
  });
}

#define LINEA_INSTANTIATE(T)                                                                    \
  template void softmax_attention(Context&, const SoftmaxShape&, const T*, const T*, const T*,  \
                                  T*, T*);                                                      \
  template void softmax_attention_backward(Context&, const SoftmaxShape&, const T*, const T*,   \
                                           const T*, const T*, const T*, const T*, T*, T*, T*);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu

// Softmax attention in blocks of queries and keys. For one (batch, head), with
// a_ij = exp(s q_i.k_j - l_i) and l_i = log sum_j exp(s q_i.k_j) over the keys that i sees:
//
//   y_i = sum_j a_ij v_j
//   dv_j = sum_i a_ij dy_i      g_ij = a_ij (dy_i.v_j - dy_i.y_i)
//   dq_i = s sum_j g_ij k_j     dk_j = s sum_i g_ij q_i
//
// The forward pass updates a running maximum m_i, sum and y_i from block to block of keys (Milakov
// & Gimelshein 2018; Rabe & Staats 2021). Only l is saved for the backward, which recomputes a by
// blocks.
#include <cmath>

#include "tensor/cpu/chunk.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

constexpr int64_t kQueries = 64, kKeys = 128;  // of a block

// A block of queries and keys, and which keys its rows see.
class Block {
 public:
  Block(const SoftmaxShape& shape, int64_t bh, int64_t first_query, int64_t first_key)
      : query(first_query),
        key(first_key),
        rows(std::min(kQueries, shape.queries - first_query)),
        offset_(shape.causal ? shape.keys - shape.queries : shape.keys),
        valid_(valid_keys(shape.valid, bh, shape.keys)) {
    keys = std::min(kKeys, seen_from_start(rows - 1) - key);
  }

  // The number of keys of the block that row i sees; the first row that sees key j.
  int64_t seen(int64_t i) const { return std::clamp<int64_t>(seen_from_start(i) - key, 0, keys); }
  int64_t first_row(int64_t j) const {
    return std::clamp<int64_t>(key + j - offset_ - query, 0, rows);
  }

  int64_t query, key, rows, keys = 0;

 private:
  int64_t seen_from_start(int64_t i) const { return std::min(valid_, query + i + 1 + offset_); }

  int64_t offset_, valid_;
};

// scores = x z^T for visible keys, rows of `inner`; arena: keys x inner.
template <typename T>
void products(const Block& block, int64_t inner, const T* x, const ValueRows<T>& z, T* scores,
              Arena<T> arena) {
  T* columns = arena.take(inner * block.keys);
  transpose(block.keys, inner, z.data, z.stride, columns, block.keys);
  for (int64_t first = 0; first < block.rows; first += kBand) {
    const int64_t rows = std::min(kBand, block.rows - first);
    small_gemm(rows, block.seen(first + rows - 1), inner, plain(x + first * inner, inner), columns,
               block.keys, scores + first * block.keys, block.keys, false);
  }
}

// y_i += sum_j scores_ij x_j over keys j, and y_j += sum_i scores_ij x_i over rows i. Entries that
// a row of a band does not see are 0.
template <typename T>
void add_by_row(const Block& block, int64_t width, const T* scores, const ValueRows<T>& x, T* y) {
  for (int64_t first = 0; first < block.rows; first += kBand) {
    const int64_t rows = std::min(kBand, block.rows - first);
    small_gemm(rows, width, block.seen(first + rows - 1),
               plain(scores + first * block.keys, block.keys), x.data, x.stride, y + first * width,
               width, true);
  }
}
template <typename T>
void add_by_key(const Block& block, int64_t width, const T* scores, const T* x, T* y, int64_t ldy) {
  for (int64_t first = 0; first < block.keys; first += kBand) {
    const int64_t keys = std::min(kBand, block.keys - first);
    const int64_t row = block.first_row(first) / kBand * kBand;  // whole bands
    small_gemm(keys, width, block.rows - row,
               transposed(scores + row * block.keys + first, block.keys), x + row * width, width,
               y + first * ldy, ldy, true);
  }
}

// Zeroes entries that row i does not see, as far as products of its band or of a band of keys read.
template <typename T>
void hide(const Block& block, int64_t i, T* row) {
  const int64_t last = std::min(i / kBand * kBand + kBand, block.rows) - 1;
  std::fill(row + block.seen(i), row + std::min(block.seen(last) + kBand, block.keys), T(0));
}

// Contiguous rows times `factor`.
template <typename T>
T* gather(const HeadRows<const T>& x, int64_t bh, int64_t first, int64_t rows, int64_t width,
          T factor, Arena<T>& arena) {
  T* copy = arena.take(rows * width);
  for (int64_t i = 0; i < rows; ++i) {
    const T* from = x.at(bh, first + i);
    for (int64_t d = 0; d < width; ++d) copy[i * width + d] = factor * from[d];
  }
  return copy;
}

template <typename T>
void scatter(const T* x, int64_t rows, int64_t width, const T* factor, const HeadRows<T>& y,
             int64_t bh, int64_t first) {
  for (int64_t i = 0; i < rows; ++i) {
    T* to = y.at(bh, first + i);
    for (int64_t d = 0; d < width; ++d) to[d] = factor[i] * x[i * width + d];
  }
}

// RunningSums sums of a block of queries over the blocks of keys.
template <typename T>
struct RunningSums {
  T *max, *total, *y;
};

// Accumulates a block of keys; scores become weights.
template <typename T>
void accumulate(const Block& block, int64_t M, T* scores, const ValueRows<T>& v,
                const RunningSums<T>& running) {
  for (int64_t i = 0; i < block.rows; ++i) {
    T* row = scores + i * block.keys;
    const int64_t seen = block.seen(i);
    hide(block, i, row);
    if (seen == 0) continue;
    const T max = std::max(running.max[i], largest(row, seen));
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < seen; ++j) total += row[j] = exp_below(row[j] - max);
    const T shrink = factor(running.max[i], max);
    running.total[i] = shrink * running.total[i] + total;
    running.max[i] = max;
    if (shrink != T(1)) scale_row(running.y + i * M, M, shrink);
  }
  add_by_row(block, M, scores, v, running.y);
}

}  // namespace

template <typename T>
void softmax_attention(Context& ctx, const SoftmaxShape& shape, const HeadRows<const T>& q,
                       const HeadRows<const T>& k, const HeadRows<const T>& v, const HeadRows<T>& y,
                       T* log_sums) {
  const int64_t D = shape.key_size, M = shape.value_size,
                blocks = (shape.queries + kQueries - 1) / kQueries;
  const int64_t each = kQueries * (kKeys + D + M + 2) + kKeys * D;
  const Workspace<T> workspace(ctx, ctx.threads * each);
  const auto one = [&](int64_t item, int thread) {
    const int64_t bh = item / blocks, query = item % blocks * kQueries;
    Arena<T> arena(workspace.data() + thread * each);
    const int64_t rows = std::min(kQueries, shape.queries - query);
    const T* block_q = gather(q, bh, query, rows, D, static_cast<T>(shape.scale), arena);
    const RunningSums<T> running{arena.take(rows), arena.take(rows), arena.take(rows * M)};
    std::fill_n(running.max, rows, kNothing<T>);
    std::fill_n(running.total, rows, T(0));
    std::fill_n(running.y, rows * M, T(0));
    T* scores = arena.take(kQueries * kKeys);
    for (int64_t key = 0;; key += kKeys) {
      const Block block(shape, bh, query, key);
      if (block.keys <= 0) break;
      products(block, D, block_q, {k.at(bh, key), k.row}, scores, arena);
      accumulate(block, M, scores, {v.at(bh, key), v.row}, running);
    }
    for (int64_t i = 0; i < rows; ++i) {
      T& total = running.total[i];
      log_sums[bh * shape.queries + query + i] =
          total == T(0) ? T(0) : running.max[i] + std::log(total);
      total = reciprocal_or_zero(total);
    }
    scatter(running.y, rows, M, running.total, y, bh, query);
  };
  parallel_items(ctx, shape.batch_heads * blocks, one,
                 std::min(kQueries, shape.queries) * shape.keys * (D + M));
}

template <typename T>
void softmax_attention_backward(Context& ctx, const SoftmaxShape& shape, const HeadRows<const T>& q,
                                const HeadRows<const T>& k, const HeadRows<const T>& v,
                                const HeadRows<const T>& y, const T* log_sums,
                                const HeadRows<const T>& dy, const HeadRows<T>& dq,
                                const HeadRows<T>& dk, const HeadRows<T>& dv) {
  const int64_t D = shape.key_size, M = shape.value_size;
  const int64_t each = kQueries * (2 * kKeys + 2 * D + M + 2) + kKeys * (D + M);
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, [&](int64_t bh, int thread) {
    for (int64_t j = 0; j < shape.keys; ++j) {
      std::fill_n(dk.at(bh, j), D, T(0));
      std::fill_n(dv.at(bh, j), M, T(0));
    }
    for (int64_t query = 0; query < shape.queries; query += kQueries) {
      Arena<T> arena(workspace.data() + thread * each);
      const int64_t rows = std::min(kQueries, shape.queries - query);
      const T* block_q = gather(q, bh, query, rows, D, static_cast<T>(shape.scale), arena);
      const T* block_dy = gather(dy, bh, query, rows, M, T(1), arena);
      T *along = arena.take(rows), *scale = arena.take(rows), *block_dq = arena.take(rows * D);
      std::fill_n(scale, rows, static_cast<T>(shape.scale));
      std::fill_n(block_dq, rows * D, T(0));
      for (int64_t i = 0; i < rows; ++i) along[i] = dot(block_dy + i * M, y.at(bh, query + i), M);
      T *weights = arena.take(kQueries * kKeys), *grads = arena.take(kQueries * kKeys);
      for (int64_t key = 0;; key += kKeys) {
        const Block block(shape, bh, query, key);
        if (block.keys <= 0) break;
        const ValueRows<T> block_k{k.at(bh, key), k.row}, block_v{v.at(bh, key), v.row};
        products(block, D, block_q, block_k, weights, arena);
        products(block, M, block_dy, block_v, grads, arena);
        for (int64_t i = 0; i < rows; ++i) {
          T *a = weights + i * block.keys, *g = grads + i * block.keys;
          const T shift = log_sums[bh * shape.queries + query + i];
          const int64_t seen = block.seen(i);
#pragma omp simd
          for (int64_t j = 0; j < seen; ++j) {
            a[j] = exp_below(a[j] - shift);
            g[j] = a[j] * (g[j] - along[i]);
          }
          hide(block, i, a);
          hide(block, i, g);
        }
        add_by_row(block, D, grads, block_k, block_dq);
        add_by_key(block, D, grads, block_q, dk.at(bh, key), dk.row);
        add_by_key(block, M, weights, block_dy, dv.at(bh, key), dv.row);
      }
      scatter(block_dq, rows, D, scale, dq, bh, query);
    }
  });
}

template <typename T>
SoftmaxAttentionKernels<T> softmax_attention_kernels() {
  return {.softmax_attention = softmax_attention<T>,
          .softmax_attention_backward = softmax_attention_backward<T>};
}
template SoftmaxAttentionKernels<float> softmax_attention_kernels();
template SoftmaxAttentionKernels<double> softmax_attention_kernels();

}  // namespace linea::cpu

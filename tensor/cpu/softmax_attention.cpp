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

// A block of queries and a block of the keys that they see together, from `key` on; its bounds are
// those of a Chunk (chunk_rows.h).
struct Block {
  Block(const SoftmaxShape& shape, int64_t bh, int64_t query)
      : rows(std::min(kQueries, shape.queries - query)) {
    const int64_t valid = valid_keys(shape.valid, bh, shape.keys);
    for (int64_t i = 0; i < rows; ++i) {
      const KeyRange range = shape.seen(bh, query + i, valid);
      firsts[i] = range.first;
      ends[i] = range.end;
    }
    go_to(firsts[0]);
  }
  void go_to(int64_t first_key) {
    key = first_key;
    keys = std::min(kKeys, ends[rows - 1] - key);
  }

  int64_t from(int64_t i) const { return std::clamp<int64_t>(firsts[i] - key, 0, keys); }
  int64_t seen(int64_t i) const { return std::clamp<int64_t>(ends[i] - key, 0, keys); }
  int64_t first_row(int64_t j) const { return std::upper_bound(ends, ends + rows, key + j) - ends; }
  int64_t end_row(int64_t j) const {
    return std::upper_bound(firsts, firsts + rows, key + j) - firsts;
  }

  static constexpr bool rounded = false;
  int64_t rows, key, keys;
  int64_t firsts[kQueries] = {}, ends[kQueries] = {};  // the keys of each query
};

// Contiguous rows of q times `factor`.
template <typename T>
T* gather(const HeadRows<const T>& x, int64_t bh, int64_t first, int64_t rows, int64_t width,
          T factor, Arena<T>& arena) {
  T* copy = arena.take(rows * width);
  for (int64_t i = 0; i < rows; ++i)
    copy_scaled(x.at(bh, first + i), copy + i * width, width, factor);
  return copy;
}

template <typename T>
void scatter(const T* x, int64_t rows, int64_t width, const T* factor, const HeadRows<T>& y,
             int64_t bh, int64_t first) {
  for (int64_t i = 0; i < rows; ++i)
    copy_scaled(x + i * width, y.at(bh, first + i), width, factor[i]);
}

// Adds a block of keys to the running sums of each query; scores become weights.
template <typename T>
void accumulate(const Block& block, int64_t M, T* scores, const Operand<T>& v, T* max, T* total,
                T* y) {
  hide_unseen(block, scores);
  for (int64_t i = 0; i < block.rows; ++i) {
    T* row = scores + i * block.keys + block.from(i);
    const int64_t seen = block.seen(i) - block.from(i);
    if (seen == 0) continue;
    const T shrink = add_scores(row, seen, max[i], total[i]);
    if (shrink != T(1)) scale_row(y + i * M, M, shrink);
  }
  add_past(block, M, scores, v, y, M);
}

}  // namespace

template <typename T>
void softmax_attention(Context& ctx, const SoftmaxShape& shape, const AttentionRows<const T>& in,
                       const HeadRows<T>& y, T* log_sums) {
  const int64_t D = shape.key_size, M = shape.value_size,
                blocks = (shape.queries + kQueries - 1) / kQueries;
  const int64_t each = kQueries * (kKeys + D + M + 2) + kKeys * D;
  const auto one = [&](int64_t item, Arena<T> arena) {
    const int64_t bh = item / blocks, query = item % blocks * kQueries;
    Block block(shape, bh, query);
    const int64_t rows = block.rows;
    const T* block_q = gather(in.q, bh, query, rows, D, static_cast<T>(shape.scale), arena);
    T *max = arena.take(rows), *total = arena.take(rows), *sums = arena.take(rows * M),
      *scores = arena.take(kQueries * kKeys);
    std::fill_n(max, rows, kNothing<T>);
    std::fill_n(total, rows, T(0));
    std::fill_n(sums, rows * M, T(0));
    for (; block.keys > 0; block.go_to(block.key + kKeys)) {
      band_products(block, D, {block_q, D}, value_rows(in.k, bh, block.key), scores, arena);
      accumulate(block, M, scores, value_rows(in.v, bh, block.key), max, total, sums);
    }
    for (int64_t i = 0; i < rows; ++i) {
      log_sums[bh * shape.queries + query + i] =
          total[i] == T(0) ? T(0) : max[i] + std::log(total[i]);
      total[i] = reciprocal_or_zero(total[i]);
    }
    scatter(sums, rows, M, total, y, bh, query);
  };
  const int64_t cost = std::min(kQueries, shape.queries) * shape.keys * (D + M);
  parallel_arenas<T>(ctx, shape.batch_heads * blocks, cost, each, one);
}

template <typename T>
void softmax_attention_backward(Context& ctx, const SoftmaxShape& shape,
                                const AttentionRows<const T>& in, const HeadRows<const T>& y,
                                const T* log_sums, const HeadRows<const T>& dy,
                                const AttentionRows<T>& grads) {
  const int64_t D = shape.key_size, M = shape.value_size;
  const int64_t each = kQueries * (2 * kKeys + 2 * D + M + 2) + kKeys * (D + M);
  parallel_arenas<T>(ctx, shape.batch_heads, kGrain, each, [&](int64_t bh, Arena<T> all) {
    clear_gradients(shape, grads, bh);
    for (int64_t query = 0; query < shape.queries; query += kQueries) {
      Arena<T> arena = all;
      Block block(shape, bh, query);
      const int64_t rows = block.rows;
      const T* block_q = gather(in.q, bh, query, rows, D, static_cast<T>(shape.scale), arena);
      const Operand<T> block_dy = value_rows(dy, bh, query);
      T *along = arena.take(rows), *scale = arena.take(rows), *block_dq = arena.take(rows * D);
      std::fill_n(scale, rows, static_cast<T>(shape.scale));
      std::fill_n(block_dq, rows * D, T(0));
      for (int64_t i = 0; i < rows; ++i)
        along[i] = dot(dy.at(bh, query + i), y.at(bh, query + i), M);
      T *weights = arena.take(kQueries * kKeys), *g = arena.take(kQueries * kKeys);
      for (; block.keys > 0; block.go_to(block.key + kKeys)) {
        const Operand<T> block_k = value_rows(in.k, bh, block.key),
                         block_v = value_rows(in.v, bh, block.key);
        band_products(block, D, {block_q, D}, block_k, weights, arena);
        band_products(block, M, block_dy, block_v, g, arena);
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t from = i * block.keys + block.from(i);
          weigh_scores(weights + from, g + from, block.seen(i) - block.from(i),
                       log_sums[bh * shape.queries + query + i], along[i]);
        }
        hide_unseen(block, weights);
        hide_unseen(block, g);
        add_past(block, D, g, block_k, block_dq, D);
        add_future(block, D, g, {block_q, D}, grads.k.at(bh, block.key), grads.k.row);
        add_future(block, M, weights, block_dy, grads.v.at(bh, block.key), grads.v.row);
      }
      scatter(block_dq, rows, D, scale, grads.q, bh, query);
    }
  });
}

LINEA_KERNEL_TABLE(SoftmaxAttentionKernels, .softmax_attention = softmax_attention<T>,
                   .softmax_attention_backward = softmax_attention_backward<T>)

}  // namespace linea::cpu

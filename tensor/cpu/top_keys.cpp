// Softmax attention over the keys of largest q.k. For one (batch, head), with the chosen keys A_i and
// a_ij = exp(s q_i.k_j - l_i), l_i = log sum_{j in A_i} exp(s q_i.k_j):
//
//   y_i = sum_j a_ij v_j            g_ij = a_ij (dy_i.v_j - dy_i.y_i)
//   dv_j = sum_i a_ij dy_i          dq_i = s sum_j g_ij k_j      dk_j = s sum_i g_ij q_i
//
// The choice reads all keys, block by block; scores are dot products of floats in double, in the order
// of d: no product is rounded, so every instruction set chooses alike. So it is with the largest product of
// a row and the columns of a matrix.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/chunk_rows.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

constexpr int64_t kQueries = 16, kKeys = 64;  // of a block

struct Candidate {
  double score;
  int32_t key;
};
// Orders candidates by score; of equals the lower key comes first.
bool comes_before(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.key < b.key);
}

// The best `count` of the candidates so far.
class Best {
 public:
  explicit Best(int64_t count) : count_(static_cast<size_t>(count)) {
    candidates_.reserve(2 * count_ + static_cast<size_t>(kKeys));
  }
  void add(double score, int64_t key) {
    if (score > threshold_) candidates_.push_back({score, static_cast<int32_t>(key)});
  }
  // Later keys need a higher score than the last that remains.
  void drop() {
    if (candidates_.size() < count_) return;
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count_) - 1;
    std::nth_element(candidates_.begin(), last, candidates_.end(), comes_before);
    candidates_.resize(count_);
    threshold_ = candidates_.back().score;
  }
  // With the query's own position, in order; the rest of `to` is -1.
  void write(int64_t own, int32_t* to) {
    int64_t n = 0;
    for (const Candidate& candidate : candidates_)
      if (candidate.key != own) to[n++] = candidate.key;
    if (own >= 0) to[n++] = static_cast<int32_t>(own);
    std::sort(to, to + n);
    std::fill(to + n, to + count_ + 1, -1);
  }

 private:
  size_t count_;
  double threshold_ = kNothing<double>;
  std::vector<Candidate> candidates_;
};

constexpr int64_t kRows = 128, kTogether = 4;  // of an item; that read a column together

double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }

// Products of kTogether rows x [width,kTogether] with the columns w [width,columns].
void multiply(const double* x, const double* w, int64_t width, int64_t columns, double* y) {
  std::fill_n(y, kTogether * columns, 0.0);
  for (int64_t d = 0; d < width; ++d)
    for (int64_t i = 0; i < kTogether; ++i)
      add_row(w + d * columns, y + i * columns, columns, x[d * kTogether + i]);
}

int32_t first_largest(const double* y, int64_t columns, bool mirrored) {
  const double *const end = y + columns, *const largest = std::max_element(y, end),
                      *const least = mirrored ? std::min_element(y, end) : largest;
  return static_cast<int32_t>(mirrored && -*least > *largest ? end - y + (least - y) : largest - y);
}

// The keys of a query, as rows of x.
template <typename Body>
void each_chosen(const int32_t* chosen, int64_t count, const Body& body) {
  for (int64_t n = 0; n < count && chosen[n] >= 0; ++n) body(n, chosen[n]);
}

}  // namespace

template <typename T>
void top_keys(Context& ctx, const TopKeysShape& shape, const HeadRows<const T>& q,
              const HeadRows<const T>& k, int32_t* chosen) {
  const int64_t D = shape.key_size, blocks = (shape.queries + kQueries - 1) / kQueries;
  const int64_t each = (D + 1) * kKeys, items = shape.batch_heads * blocks;
  parallel_arenas<double>(ctx, items, kGrain, each, [&](int64_t item, Arena<double> arena) {
    const int64_t bh = item / blocks, first = item % blocks * kQueries;
    const int64_t rows = std::min(kQueries, shape.queries - first);
    const int64_t valid = valid_keys(shape.valid, bh, shape.keys);
    const auto seen = [&](int64_t i) {
      return shape.causal ? std::min(valid, shape.position(i) + 1) : valid;
    };
    double *const columns = arena.take(D * kKeys), *const scores = arena.take(kKeys);
    std::vector<Best> best(static_cast<size_t>(rows), Best(shape.count));
    for (int64_t key = 0; key < seen(first + rows - 1); key += kKeys) {
      const int64_t count = std::min(kKeys, valid - key);
      for (int64_t j = 0; j < count; ++j)
        for (int64_t d = 0; d < D; ++d)
          columns[d * kKeys + j] = rounded(static_cast<double>(k.at(bh, key + j)[d]));
      for (int64_t i = 0; i < rows; ++i) {
        std::fill_n(scores, count, 0.0);
        for (int64_t d = 0; d < D; ++d)
          add_row(columns + d * kKeys, scores, count,
                  rounded(static_cast<double>(q.at(bh, first + i)[d])));
        Best& own = best[static_cast<size_t>(i)];
        const int64_t end = std::min(count, seen(first + i) - key);
        for (int64_t j = 0; j < end; ++j) own.add(scores[j], key + j);
        own.drop();
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t own = shape.position(first + i);
      best[static_cast<size_t>(i)].write(
          own < valid ? own : -1, chosen + (bh * shape.queries + first + i) * (shape.count + 1));
    }
  });
}

template <typename T>
void largest_product(Context& ctx, const LargestProductShape& shape, const HeadRows<const T>& x,
                     const T* w, int32_t* chosen) {
  const int64_t W = shape.width, C = shape.columns, R = shape.rounds;
  const int64_t blocks = (shape.rows + kRows - 1) / kRows;
  const int64_t each = (W + kTogether) * C + W * kTogether;
  parallel_arenas<double>(
      ctx, shape.batch_heads * R * blocks, std::min(shape.rows, kRows) * W * C, each,
      [&](int64_t item, Arena<double> arena) {
        const int64_t bh = item / (R * blocks), round = item / blocks % R,
                      first = item % blocks * kRows;
        double *const columns = arena.take(W * C), *const products = arena.take(kTogether * C),
                      *const rows = arena.take(W * kTogether);
        const T* const own = w + (bh % shape.heads * R + round) * W * C;
        for (int64_t i = 0; i < W * C; ++i) columns[i] = rounded(static_cast<double>(own[i]));
        const int64_t end = std::min(shape.rows, first + kRows);
        for (int64_t row = first; row < end; row += kTogether) {
          const int64_t count = std::min(kTogether, end - row);
          for (int64_t i = 0; i < kTogether; ++i)
            for (int64_t d = 0; d < W; ++d)
              rows[d * kTogether + i] =
                  rounded(static_cast<double>(x.at(bh, row + std::min(i, count - 1))[d]));
          multiply(rows, columns, W, C, products);
          for (int64_t i = 0; i < count; ++i)
            chosen[(bh * R + round) * shape.rows + row + i] =
                first_largest(products + i * C, C, shape.mirrored);
        }
      });
}

template <typename T>
void listed_attention(Context& ctx, const TopKeysShape& shape, const AttentionRows<const T>& in,
                      const int32_t* chosen, const HeadRows<T>& y, T* log_sums) {
  const int64_t D = shape.key_size, M = shape.value_size, K = shape.count + 1, N = shape.queries;
  const T scale = static_cast<T>(shape.scale);
  const int64_t cost = K * (D + M);
  parallel_arenas<T>(ctx, shape.batch_heads * N, cost, K, [&](int64_t row, Arena<T> arena) {
    const int64_t bh = row / N, i = row % N;
    const int32_t* const keys = chosen + row * K;
    T *const a = arena.take(K), *const to = y.at(bh, i);
    T max = kNothing<T>, total = 0;
    std::fill_n(to, M, T(0));
    each_chosen(keys, K, [&](int64_t n, int64_t j) {
      a[n] = scale * dot(in.q.at(bh, i), in.k.at(bh, j), D);
      max = std::max(max, a[n]);
    });
    each_chosen(keys, K, [&](int64_t n, int64_t) { total += a[n] = exp_below(a[n] - max); });
    each_chosen(keys, K,
                [&](int64_t n, int64_t j) { add_row(in.v.at(bh, j), to, M, a[n] / total); });
    log_sums[row] = total == T(0) ? T(0) : max + std::log(total);
  });
}

template <typename T>
void listed_attention_backward(Context& ctx, const TopKeysShape& shape,
                               const AttentionRows<const T>& in, const int32_t* chosen,
                               const HeadRows<const T>& y, const T* log_sums,
                               const HeadRows<const T>& dy, const AttentionRows<T>& grads) {
  const int64_t D = shape.key_size, M = shape.value_size, K = shape.count + 1, N = shape.queries;
  const T scale = static_cast<T>(shape.scale);
  parallel_items(ctx, shape.batch_heads, kGrain, [&](int64_t bh, int) {
    if (!shape.adds) clear_gradients(shape, grads, bh);
    for (int64_t i = 0; i < N; ++i) {
      const T *const q = in.q.at(bh, i), *const from = dy.at(bh, i);
      const T inner = dot(from, y.at(bh, i), M);
      T* const dq = grads.q.at(bh, i);
      each_chosen(chosen + (bh * N + i) * K, K, [&](int64_t, int64_t j) {
        const T *const k = in.k.at(bh, j), *const v = in.v.at(bh, j);
        const T a = exp_of(scale * dot(q, k, D) - log_sums[bh * N + i]);
        const T g = scale * a * (dot(from, v, M) - inner);
        add_row(k, dq, D, g);
        add_row(q, grads.k.at(bh, j), D, g);
        add_row(from, grads.v.at(bh, j), M, a);
      });
    }
  });
}

LINEA_KERNEL_TABLE(TopKeysKernels, .top_keys = top_keys<T>, .largest_product = largest_product<T>,
                   .listed_attention = listed_attention<T>,
                   .listed_attention_backward = listed_attention_backward<T>)

}  // namespace linea::cpu

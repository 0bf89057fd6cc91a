// Routing attention as published: each centroid mu_c chooses the `window` queries and keys of largest x.mu_c,
// Q_c and K_c, of the whole sequence.
//
//   y_i^c = softmax attention of q_i over K_c and i itself
//   y_i   = the mean of y_i^c over the c with i in Q_c;  v_i where there is none
//
// The first `local_heads` heads read { j : |i - j| < window }. The choice is a decision. Time and memory are those of
// C `window` queries. Not causal: the choice reads all rows. Centroids learn as in nn/attention/routing.cpp.
// Source: Roy et al. 2020, "Efficient content-based sparse attention with Routing Transformers", section 4.1.
#include <algorithm>
#include <cmath>

#include "autograd/decisions.h"
#include "autograd/prototypes.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/slots.h"
#include "autograd/sparse_attention.h"
#include "nn/attention/centroids.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// The sets of C w queries, the rows of Q_c one after the other, over all keys. Rows that do not exist are -1, after
// those that do.
KeyTilesPtr sets_of_clusters(const int32_t* queries, const int32_t* keys, int64_t C, int64_t w,
                             int64_t rows, int64_t N) {
  KeyTiles::Lists near, own;  // K_c, and the key of the query itself
  const int64_t blocks = (w + kKeyTile - 1) / kKeyTile;
  for (int64_t c = 0; c < C; ++c) {
    const int32_t *const of_c = queries + c * w, *const keys_of_c = keys + c * w;
    const auto existing = [w](const int32_t* list) { return std::find(list, list + w, -1) - list; };
    const int64_t query_count = existing(of_c), key_count = existing(keys_of_c);
    for (int64_t first = 0; first < blocks * kKeyTile; first += kKeyTile) {
      KeyTiles::Mask alone{};
      for (int64_t n = first; n < first + kKeyTile; ++n) {
        const bool exists = n < query_count;
        near.queries.push_back(exists ? static_cast<int32_t>(c * w + n) : -1);
        near.keys.push_back(n < key_count ? keys_of_c[n] : -1);
        own.keys.push_back(exists ? of_c[n] : -1);
        if (exists && !std::binary_search(keys_of_c, keys_of_c + key_count, of_c[n]))
          alone[static_cast<size_t>(n - first)] = uint64_t{1} << (n - first);
      }
      for (int64_t key = 0; key < key_count; key += kKeyTile) {
        KeyTiles::Mask mask{};
        for (int64_t n = first; n < std::min(query_count, first + kKeyTile); ++n)
          mask[static_cast<size_t>(n - first)] = key_bits(0, key_count - key);
        if (query_count > first) near.add_tile(c * blocks + key / kKeyTile, mask, false);
      }
      near.end_block();
      if (alone != KeyTiles::Mask{}) own.add_tile(c * blocks + first / kKeyTile, alone, false);
      own.end_block();
    }
  }
  own.queries = near.queries;
  std::vector<KeyTiles::Lists> lists;
  lists.push_back(std::move(near));
  lists.push_back(std::move(own));
  return std::make_shared<const KeyTiles>(rows, N, std::move(lists));
}

// Query i sees the keys j < valid with |i - j| < w.
KeyTilesPtr band(int64_t w, int64_t valid, int64_t rows, int64_t N) {
  KeyTiles::Part part;
  for (int32_t i = 0; i < N; ++i) part.queries.push_back(i);
  part.sees = [=](int64_t i, const int32_t* keys, int64_t count) {
    const int64_t first = std::max(i - w + 1 - keys[0], int64_t{0}),
                  end = std::min({i + w - keys[0], valid - keys[0], count});
    return key_bits(first, end);
  };
  part.may_see = [w](KeyRange of, KeyRange keys) {
    return keys.first < of.end - 1 + w && of.first < keys.end - 1 + w;
  };
  return std::make_shared<const KeyTiles>(rows, N, std::vector{part});
}

class NearestRowsAttention final : public CentroidAttention {
 public:
  explicit NearestRowsAttention(const AttentionOptions& options)
      : CentroidAttention(
            options,
            {.not_causal = "the rows nearest a centroid are chosen over the whole sequence"}) {
    // Queries of clusters, their results, and the gradients of both.
    const int64_t length = std::max<int64_t>(options.length, 1);
    const double queries =
        static_cast<double>(clusters_ * std::min(window_, length)) / static_cast<double>(length);
    traits_.saved_scalars = (std::max(queries, 1.0) * 2 + 2) *
                                static_cast<double>(options.key_size + options.value_size) +
                            8;
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    require_form(mask.causal);
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), C = clusters_,
                  w = std::min(window_, N);
    const Rows of = decide_rows(in, mask, &NearestRowsAttention::choose);
    const std::vector<int32_t> valid = mask.lengths(B, N);
    const int64_t rows = local_heads_ > 0 ? std::max(C * w, N) : C * w;
    // The position of each row of a query, and positions that no cluster has.
    std::vector<int32_t> positions(static_cast<size_t>(B * H * rows), -1), alone;
    for (int64_t bh = 0; bh < B * H; ++bh) {
      int32_t* const own = &positions[static_cast<size_t>(bh * rows)];
      if (bh % H < local_heads_)
        for (int32_t i = 0; i < valid[static_cast<size_t>(bh / H)]; ++i) own[i] = i;
      else
        std::copy_n(&of.queries[static_cast<size_t>(bh * C * w)], C * w, own);
      std::vector<int32_t> others(static_cast<size_t>(N), -1);
      for (int32_t i = 0; i < valid[static_cast<size_t>(bh / H)]; ++i)
        others[static_cast<size_t>(i)] = i;
      for (int64_t row = 0; row < rows; ++row)
        if (own[row] >= 0) others[static_cast<size_t>(own[row])] = -1;
      alone.insert(alone.end(), others.begin(), others.end());
    }
    const Tensor at = Tensor::from(positions, {B, H, rows});
    const KeyTilesOf sets = [=, this](int64_t sequence, int64_t head) {
      const auto first = static_cast<size_t>((sequence * H + head) * C * w);
      if (head < local_heads_) return band(window_, valid[static_cast<size_t>(sequence)], rows, N);
      return sets_of_clusters(&of.queries[first], &of.keys[first], C, w, rows, N);
    };
    const Var v = clear_padding(in.v, mask.valid),
              y = sparse_attention({rows_of_clusters(in.q, at), in.k, in.v, Var()}, mask, sets);
    return add(cluster_means(y, at, N), rows_of_clusters(v, Tensor::from(alone, {B, H, N})));
  }

  // Each cluster by a mask over all pairs, and weights of the mean.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    require_form(mask.causal);
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), M = in.v.size(3);
    const int64_t w = std::min(window_, N);
    const Rows of = decide_rows(in, mask, &NearestRowsAttention::choose_by_loops);
    const std::vector<int32_t> valid = mask.lengths(B, N);
    const auto has = [&](const std::vector<int32_t>& all, int64_t bh, int64_t c, int64_t i) {
      const auto first = all.begin() + (bh * clusters_ + c) * w;
      return std::find(first, first + w, i) != first + w;
    };
    // How often query i is chosen, of all positions [B,H,N].
    const auto is_in = [&](int64_t bh, int64_t c, int64_t i) {
      if (i >= valid[static_cast<size_t>(bh / H)]) return false;
      return bh % H < local_heads_ ? c == 0 : has(of.queries, bh, c, i);
    };
    const auto share = [&](const std::function<double(int64_t bh, int64_t i, int64_t count)>& f) {
      std::vector<double> values;
      for (int64_t at = 0; at < B * H * N; ++at) {
        int64_t count = 0;
        for (int64_t c = 0; c < clusters_; ++c) count += is_in(at / N, c, at % N);
        values.insert(values.end(), static_cast<size_t>(M), f(at / N, at % N, count));
      }
      return Var(Tensor::from(values, in.v.shape(), in.v.dtype()));
    };
    const Var k = clear_padding(in.k, mask.valid), v = clear_padding(in.v, mask.valid),
              scores = scaled_scores(in.q, k);
    Var y = multiply(v, share([](int64_t, int64_t, int64_t count) { return count == 0 ? 1 : 0; }));
    for (int64_t c = 0; c < clusters_; ++c) {
      const Var of_c =
          naive::softmax_attention(scores, v, mask, [&](int64_t bh, int64_t i, int64_t j) {
            if (bh % H < local_heads_) return std::abs(i - j) < window_;
            return i == j || has(of.keys, bh, c, j);
          });
      y = add(y, multiply(of_c, share([&](int64_t bh, int64_t i, int64_t count) {
                            return is_in(bh, c, i) ? 1 / static_cast<double>(count) : 0;
                          })));
    }
    return y;
  }

  // With the products of rows and centroids.
  AttentionFlops flops(int64_t length) const override {
    const auto N = static_cast<double>(std::max<int64_t>(length, 1)),
               C = static_cast<double>(clusters_), w = std::min(static_cast<double>(window_), N),
               local = static_cast<double>(local_heads_) / static_cast<double>(options_.heads),
               choice = (1 - local) * 4 * C * static_cast<double>(options_.key_size);
    const AttentionFlops read =
        softmax_flops(options_, local * std::min(2 * w, N) + (1 - local) * C * w / N * w);
    return {choice + read.forward, choice + read.training};
  }

 private:
  struct Rows {
    std::vector<int32_t> queries, keys;  // Q_c and K_c [B,H,C,w], in order, then -1
  };
  // Those of x [B,H,N,D].
  using Choice = Tensor (NearestRowsAttention::*)(const Tensor& x, const Tensor& valid) const;

  Rows decide_rows(const AttentionInputs& in, const AttentionMask& mask, Choice choice) const {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2);
    const auto rows = [&](const Var& x) {
      return decide({B, H, clusters_, std::min(window_, N)}, N,
                    [&] { return (this->*choice)(x.value(), mask.valid); })
          .to_vector<int32_t>();
    };
    std::vector<int32_t> queries = rows(in.q);
    return {std::move(queries), rows(in.k)};
  }

  Tensor choose(const Tensor& x, const Tensor& valid) const {
    return without_local_heads(prototype_keys(repeat(Var(mu_), x.size(0)).value(), x, valid,
                                              std::min(window_, x.size(2))));
  }

  Tensor choose_by_loops(const Tensor& x, const Tensor& valid) const {
    const int64_t B = x.size(0), H = x.size(1), N = x.size(2), D = x.size(3),
                  w = std::min(window_, N);
    const std::vector<double> rows = x.to_doubles(), mu = mu_.to_doubles();
    const std::vector<int32_t> lengths = AttentionMask{false, valid}.lengths(B, N);
    std::vector<int32_t> chosen;
    for (int64_t list = 0; list < B * H * clusters_; ++list) {
      const int64_t bh = list / clusters_, L = lengths[static_cast<size_t>(bh / H)],
                    of = bh % H * clusters_ + list % clusters_;
      std::vector<double> products;
      for (int64_t i = 0; i < L; ++i)
        products.push_back(rounded_product(&rows[static_cast<size_t>((bh * N + i) * D)],
                                           &mu[static_cast<size_t>(of * D)], D));
      std::vector<int32_t> first = largest_first(products, w);
      std::sort(first.begin(), first.end());
      first.resize(static_cast<size_t>(w), -1);
      chosen.insert(chosen.end(), first.begin(), first.end());
    }
    return without_local_heads(Tensor::from(chosen, {B, H, clusters_, w}));
  }

  Tensor without_local_heads(const Tensor& chosen) const {
    const int64_t H = chosen.size(1), each = chosen.size(2) * chosen.size(3);
    for (int64_t bh = 0; bh < chosen.size(0) * H; ++bh)
      if (bh % H < local_heads_) std::fill_n(chosen.data<int32_t>() + bh * each, each, -1);
    return chosen;
  }
};

}  // namespace

std::unique_ptr<Attention> make_nearest_rows(const AttentionOptions& options) {
  return std::make_unique<NearestRowsAttention>(options);
}

}  // namespace linea

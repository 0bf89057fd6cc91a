// Clustered attention: queries that hash alike share the weights of their mean. With clusters c(i) of queries
// (nn/attention/hamming_clusters.h), their means p_c and a_cj = softmax_j(p_c.k_j / sqrt(D)):
//
//   clustered            y_i = sum_j a_cj v_j,  c = c(i)
//   improved-clustered   y_i = m_c sum_{j in T_c} b_ij v_j + sum_{j not in T_c} a_cj v_j
//
// T_c are the `keys` keys of largest p_c.k_j, m_c the sum of their a_cj, and b_ij is softmax_j(q_i.k_j /
// sqrt(D)) over T_c: each query has weights of its own for them. Clusters and T_c are decisions; the gradient
// reaches q through p_c and b_ij. Time O(N C (D + M)), and O(N keys (D + M)) for b; a cluster is a mean over the
// whole sequence, so there is no causal form.
// Source: Vyas et al. 2020, "Fast Transformers with clustered attention", equations 5 to 11.
#include <algorithm>
#include <limits>

#include "autograd/decisions.h"
#include "autograd/ops.h"
#include "autograd/prototypes.h"
#include "autograd/softmax_attention.h"
#include "base/random.h"
#include "nn/attention/builtin.h"
#include "nn/attention/hamming_clusters.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

double log_of(bool seen) { return seen ? 0 : -std::numeric_limits<double>::infinity(); }

// The sets of the queries of a head: those of a cluster c, in an order of their own, see T_c.
KeyTilesPtr sets_of_clusters(const int32_t* clusters, int64_t N, const int32_t* keys, int64_t C,
                             int64_t K) {
  std::vector<std::vector<int32_t>> rows(static_cast<size_t>(C));
  for (int32_t i = 0; i < N; ++i)
    if (clusters[i] >= 0) rows[static_cast<size_t>(clusters[i])].push_back(i);
  KeyTiles::Part part;
  std::vector<size_t> of_rows, of_keys;  // the cluster of each tile
  const auto fill = [](std::vector<int32_t>& order, std::vector<size_t>& of, size_t c) {
    order.resize((order.size() + kKeyTile - 1) / kKeyTile * kKeyTile, -1);
    of.resize(order.size() / kKeyTile, c);
  };
  for (size_t c = 0; c < rows.size(); ++c) {
    if (rows[c].empty()) continue;
    part.queries.insert(part.queries.end(), rows[c].begin(), rows[c].end());
    fill(part.queries, of_rows, c);
    const int32_t* const own = keys + static_cast<int64_t>(c) * K;
    part.keys.insert(part.keys.end(), own, own + K);
    fill(part.keys, of_keys, c);
  }
  if (part.queries.empty()) part.queries = part.keys = {-1};  // empty: all positions
  part.sees = [](int64_t, const int32_t* some, int64_t count) {
    uint64_t bits = 0;
    for (int64_t n = 0; n < count; ++n) bits |= uint64_t{some[n] >= 0} << n;
    return bits;
  };
  part.may_see = [of_rows, of_keys](KeyRange of_queries, KeyRange some) {
    return !of_rows.empty() && of_rows[static_cast<size_t>(of_queries.first / kKeyTile)] ==
                                   of_keys[static_cast<size_t>(some.first / kKeyTile)];
  };
  return std::make_shared<const KeyTiles>(N, N, std::vector{part});
}

class ClusteredAttention final : public Attention {
 public:
  ClusteredAttention(const AttentionOptions& options, bool improved)
      : Attention(options, {.not_causal = "a cluster is a mean of queries, later ones too",
                            .decides = true,
                            .training_capturable = false,
                            .rotary = Rotary::inputs}),
        clusters_{options.settings.integer("clusters"), options.settings.integer("iterations"),
                  options.seed, options.layer},
        keys_(improved ? options.settings.integer("keys") : 0),
        planes_({options.heads, options.settings.integer("bits"), options.key_size + 1},
                options.dtype) {
    const RandomStream stream{options.seed, Purpose::hash, static_cast<uint32_t>(options.layer)};
    write_normal(stream, 1, planes_);
    if (improved) traits_.saved_scalars += static_cast<double>(options.value_size);  // sum b_ij v_j
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    require_form(mask.causal);
    const int64_t N = in.q.size(2), C = clusters_.count;
    const Tensor clusters = decide_clusters(in.q, [&] {
      return hamming_clusters(in.q.value(), planes_, mask.lengths(in.q.size(0), N), clusters_);
    });
    const Var p = cluster_means(in.q, clusters, C);
    if (keys_ == 0)
      return rows_of_clusters(softmax_attention({p, in.k, in.v, Var()}, {false, mask.valid}),
                              clusters);
    const int64_t K = std::min(keys_, N);
    const Tensor keys = decide_keys(in.q, [&] {
      return prototype_keys(rounded_cluster_means(in.q.value(), clusters, C), in.k.value(),
                            mask.valid, K);
    });
    const KeyTilesOf sets = [=, H = in.q.size(1)](int64_t sequence, int64_t head) {
      const int64_t bh = sequence * H + head;
      return sets_of_clusters(clusters.data<int32_t>() + bh * N, N,
                              keys.data<int32_t>() + bh * C * K, C, K);
    };
    return cluster_attention(in, p, clusters, keys, sets, mask.valid);
  }

  // With matrices [N,C] and [C,N] of clusters and weights.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    require_form(mask.causal);
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), C = clusters_.count;
    const std::vector<int32_t> valid = mask.lengths(B, N),
                               clusters = decide_clusters(in.q, [&] {
                                            return clusters_by_loops(in.q.value(), valid);
                                          }).to_vector<int32_t>();
    std::vector<double> sizes(static_cast<size_t>(B * H * C));
    for (size_t row = 0; row < clusters.size(); ++row)
      if (clusters[row] >= 0)
        ++sizes[row / static_cast<size_t>(N) * static_cast<size_t>(C) +
                static_cast<size_t>(clusters[row])];
    const auto cluster = [&](int64_t bh, int64_t i) {
      return clusters[static_cast<size_t>(bh * N + i)];
    };
    const Var member = constant_matrix(in.q, N, C, [&](int64_t bh, int64_t i, int64_t c) {
      return cluster(bh, i) == c ? 1.0 : 0.0;
    });
    const Var mean = constant_matrix(in.q, C, N, [&](int64_t bh, int64_t c, int64_t i) {
      return cluster(bh, i) == c ? 1 / sizes[static_cast<size_t>(bh * C + c)] : 0.0;
    });
    const Var exists = constant_matrix(in.q, C, N, [&](int64_t bh, int64_t, int64_t j) {
      return log_of(j < valid[static_cast<size_t>(bh / H)]);
    });
    const Var a = softmax(add(scaled_scores(matmul(mean, in.q), in.k), exists));
    if (keys_ == 0) return matmul(matmul(member, a), in.v);
    const std::vector<int32_t> keys = decide_keys(in.q, [&] {
                                        return keys_by_sorting(in, clusters, valid);
                                      }).to_vector<int32_t>();
    const auto is_top = [&](int64_t bh, int64_t c, int64_t j) {
      const auto first = keys.begin() + (bh * C + c) * std::min(keys_, N),
                 end = first + std::min(keys_, N);
      return c >= 0 && std::find(first, end, static_cast<int32_t>(j)) != end;
    };
    const Var top = constant_matrix(
        in.q, C, N, [&](int64_t bh, int64_t c, int64_t j) { return is_top(bh, c, j) ? 1.0 : 0.0; });
    const Var rest = add(scale(top, -1), Var(Tensor::full(top.shape(), top.dtype(), 1.0)));
    const Var b = softmax(add(scaled_scores(in.q, in.k),
                              constant_matrix(in.q, N, N, [&](int64_t bh, int64_t i, int64_t j) {
                                return log_of(is_top(bh, cluster(bh, i), j));
                              })));
    const Var ones(Tensor::full({N, N}, in.q.dtype(), 1.0));
    const Var m = matmul(member, matmul(multiply(a, top), ones));  // m_c(i) in all of row i
    return matmul(add(multiply(m, b), matmul(member, multiply(a, rest))), in.v);
  }

  // C queries read all keys, and each query `keys` of them.
  AttentionFlops flops(int64_t length) const override {
    const auto hashes = static_cast<double>(2 * planes_.size(1) * (options_.key_size + 1));
    const AttentionFlops read = softmax_flops(
        options_, static_cast<double>(std::min(clusters_.count, length) + std::min(keys_, length)));
    return {hashes + read.forward, hashes + read.training};
  }

  std::vector<Buffer> buffers() const override { return {{"planes", planes_}}; }

 private:
  Tensor decide_clusters(const Var& q, const std::function<Tensor()>& make) const {
    return decide({q.size(0), q.size(1), q.size(2)}, clusters_.count, make);
  }
  Tensor decide_keys(const Var& q, const std::function<Tensor()>& make) const {
    const int64_t N = q.size(2);
    return decide({q.size(0), q.size(1), clusters_.count, std::min(keys_, N)}, N, make);
  }

  Tensor clusters_by_loops(const Tensor& q, const std::vector<int32_t>& valid) const;
  Tensor keys_by_sorting(const AttentionInputs& in, const std::vector<int32_t>& clusters,
                         const std::vector<int32_t>& valid) const;

  HammingClusters clusters_;
  int64_t keys_;   // of T_c, 0 without them
  Tensor planes_;  // [H,bits,D+1]
};

using Bits = std::vector<int>;

// Bits of rows q [rows,D]; planes [bits,D+1].
std::vector<Bits> bits_of(const double* q, int64_t rows, int64_t D, const double* planes,
                          int64_t bits) {
  std::vector<Bits> all(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t b = 0; b < bits; ++b) {
      const double sum = rounded_product(q + i * D, planes + b * (D + 1), D) +
                         double{static_cast<float>(planes[b * (D + 1) + D])};
      all[static_cast<size_t>(i)].push_back(sum > 0 ? 1 : 0);
    }
  return all;
}

size_t nearest_of(const Bits& row, const std::vector<Bits>& centroids) {
  std::vector<int> distances;
  for (const Bits& centroid : centroids) {
    distances.push_back(0);
    for (size_t b = 0; b < row.size(); ++b) distances.back() += row[b] != centroid[b] ? 1 : 0;
  }
  return static_cast<size_t>(std::min_element(distances.begin(), distances.end()) -
                             distances.begin());
}

// The definition: bits one by one, all iterations.
Tensor ClusteredAttention::clusters_by_loops(const Tensor& q,
                                             const std::vector<int32_t>& valid) const {
  const int64_t H = q.size(1), N = q.size(2), D = q.size(3), bits = planes_.size(1);
  const std::vector<double> x = q.to_doubles(), planes = planes_.to_doubles();
  std::vector<int32_t> clusters(static_cast<size_t>(q.size(0) * H * N), -1);
  for (int64_t bh = 0; bh < q.size(0) * H; ++bh) {
    const int64_t rows = valid[static_cast<size_t>(bh / H)];
    const std::vector<Bits> hashes =
        bits_of(x.data() + bh * N * D, rows, D, planes.data() + bh % H * bits * (D + 1), bits);
    std::vector<Bits> centroids(hashes.begin(), hashes.begin() + std::min(rows, clusters_.count));
    for (int64_t iteration = 1; iteration <= clusters_.iterations; ++iteration) {
      std::vector<Bits> next;
      for (size_t c = 0; c < centroids.size(); ++c) {
        Bits sums(static_cast<size_t>(bits));
        int size = 0;
        for (const Bits& row : hashes) {
          if (nearest_of(row, centroids) != c) continue;
          ++size;
          for (size_t b = 0; b < sums.size(); ++b) sums[b] += row[b];
        }
        for (int& sum : sums) sum = 2 * sum > size ? 1 : 0;
        next.push_back(size > 0
                           ? sums
                           : hashes[static_cast<size_t>(new_centroid(
                                 clusters_, H, bh % H, iteration, static_cast<int64_t>(c), rows))]);
      }
      centroids = next;
    }
    for (int64_t i = 0; i < rows; ++i)
      clusters[static_cast<size_t>(bh * N + i)] =
          static_cast<int32_t>(nearest_of(hashes[static_cast<size_t>(i)], centroids));
  }
  return Tensor::from(clusters, {q.size(0), H, N});
}

// The definition: all scores of a mean, sorted.
Tensor ClusteredAttention::keys_by_sorting(const AttentionInputs& in,
                                           const std::vector<int32_t>& clusters,
                                           const std::vector<int32_t>& valid) const {
  const int64_t BH = in.q.size(0) * in.q.size(1), N = in.q.size(2), D = in.q.size(3),
                K = std::min(keys_, N);
  const std::vector<double> q = in.q.value().to_doubles(), k = in.k.value().to_doubles();
  std::vector<int32_t> result;
  for (int64_t bh = 0; bh < BH; ++bh)
    for (int64_t c = 0; c < clusters_.count; ++c) {
      std::vector<double> p(static_cast<size_t>(D));
      double size = 0;
      for (int64_t i = 0; i < N; ++i) {
        if (clusters[static_cast<size_t>(bh * N + i)] != c) continue;
        ++size;
        for (int64_t d = 0; d < D; ++d)
          p[static_cast<size_t>(d)] +=
              static_cast<float>(q[static_cast<size_t>((bh * N + i) * D + d)]);
      }
      for (double& sum : p) sum = size == 0 ? 0 : static_cast<float>(sum / size);
      std::vector<double> scores;
      for (int64_t j = 0; j < valid[static_cast<size_t>(bh / in.q.size(1))]; ++j)
        scores.push_back(rounded_product(p.data(), k.data() + (bh * N + j) * D, D));
      std::vector<int32_t> chosen = largest_first(scores, K);
      std::sort(chosen.begin(), chosen.end());
      chosen.resize(static_cast<size_t>(K), -1);
      result.insert(result.end(), chosen.begin(), chosen.end());
    }
  return Tensor::from(result, {in.q.size(0), in.q.size(1), clusters_.count, K});
}

Declarations settings_of_clusters() {
  using namespace declare;
  return {labeled(integer("clusters", 64, {1, 65536}, "clusters of a head's queries")),
          labeled_if_changed(defining(
              ".planes", integer("bits", 32, {1, kMaxHashBits}, "planes of a query's hash"))),
          labeled_if_changed(integer("iterations", 10, {0, 1000}, "of Lloyd's algorithm"))};
}

}  // namespace

std::vector<AttentionEntry> clustered_entries() {
  using namespace declare;
  AttentionEntry clustered{
      .name = "clustered",
      .summary = "softmax attention by the means of clusters of queries",
      .source = "Vyas 2020",
      .settings = settings_of_clusters(),
      .make =
          [](const AttentionOptions& options) {
            return std::make_unique<ClusteredAttention>(options, false);
          },
      .variants = {{{"clusters", int64_t{9}}, {"bits", int64_t{12}}, {"iterations", int64_t{4}}}},
      .cpu_only = true,
      .tensors = {{"planes", "HPE", "", false,
                   ", P planes, E = D + 1 with their offsets; default: sampled with --seed"}}};
  AttentionEntry improved = clustered;
  improved.name = "improved-clustered";
  improved.summary = "clustered attention with a query's own weights for its cluster's top keys";
  improved.settings.push_back(
      labeled_if_changed(integer("keys", 32, at_least(1), "keys with weights of a query's own")));
  improved.make = [](const AttentionOptions& options) {
    return std::make_unique<ClusteredAttention>(options, true);
  };
  improved.variants.front()["keys"] = int64_t{7};
  return {clustered, improved};
}

}  // namespace linea

// Routing Transformer: softmax attention over the keys of the query's cluster. mu_c are C centroids of length 1
// for each head, and c(x) = argmax_c x.mu_c:
//
//   y_i = sum_{j in A_i} a_ij v_j / sum_{j in A_i} a_ij,  a_ij = exp(q_i.k_j / sqrt(D))
//   A_i = {i} and the last `window` keys j <= i with c(k_j) = c(q_i)
//
// Not causal: with n keys j <= i in the cluster, its keys whose ranks, from 1, are above n - w/2 rounded up and
// at most n + w/2 rounded down. The first `local_heads` heads have A_i = { j : |i - j| < window }.
// Clusters are decisions. The recurrent form keeps the last `window` keys and values of each cluster. `assign` top
// has other clusters: nearest_rows.cpp.
//
// After a step of training, with sums over its rows x^ = x / |x|:
//
//   m_c <- decay m_c + (1 - decay) (sum of q^_i with c(q_i) = c + sum of k^_j with c(k_j) = c),  mu_c = m_c / |m_c|
//
// and the loss has the term commitment (mean_i |q^_i - mu|^2 + mean_j |k^_j - mu|^2), mu the centroid of the row.
// Source: Roy et al. 2020, "Efficient content-based sparse attention with Routing Transformers";
// docs/mechanisms.md says what differs.
#include <algorithm>
#include <cmath>

#include "autograd/buckets.h"
#include "autograd/decisions.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/builtin.h"
#include "nn/attention/centroids.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// Rings of slots, one for each cluster of a sequence and head; a slot belongs to one of them.
class RoutingState final : public AttentionState {
 public:
  RoutingState(KeySlots all, size_t lists) : slots(std::move(all)), rings(lists) {
    slots.positions.resize(static_cast<size_t>(slots.keys.size(2)));
    used.resize(static_cast<size_t>(slots.keys.size(0) * slots.keys.size(1)));
  }
  size_t bytes() const override {
    return slots.bytes() + used.size() * slots.positions.size() * sizeof(int32_t);
  }
  struct Ring {
    std::vector<int32_t> slots;
    size_t oldest = 0;
  };
  KeySlots slots;
  std::vector<Ring> rings;    // [B,H,C]
  std::vector<int32_t> used;  // slots of each sequence and head
};

class RoutingAttention final : public CentroidAttention {
 public:
  explicit RoutingAttention(const AttentionOptions& options)
      : CentroidAttention(options, {.step_capturable = false}) {}

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2);
    const Clusters of = decide_clusters(in, &RoutingAttention::nearest);
    const std::vector<int32_t> valid = mask.lengths(B, N);
    const KeyTilesOf sets = [=, this](int64_t sequence, int64_t head) {
      const auto own = [&](const std::vector<int32_t>& all) {
        const auto first = all.begin() + (sequence * H + head) * N;
        return std::vector<int32_t>(first, first + N);
      };
      return tiles(own(of.queries), own(of.keys), valid[static_cast<size_t>(sequence)], mask.causal,
                   head < local_heads_);
    };
    return sparse_attention(in, mask, sets);
  }

  // By the formulas: clusters by loops, ranks by counting.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2);
    const Clusters of = decide_clusters(in, &RoutingAttention::nearest_by_loops);
    const std::vector<int32_t> valid = mask.lengths(in.q.size(0), N);
    const int64_t half = window_ / 2;
    const auto allowed = [&](int64_t bh, int64_t i, int64_t j) {
      if (i == j) return true;
      if (bh % H < local_heads_) return std::abs(i - j) < window_;
      const int32_t cluster = of.queries[static_cast<size_t>(bh * N + i)];
      const auto keys_to = [&](int64_t last) {
        int64_t count = 0;
        for (int64_t n = 0; n <= std::min<int64_t>(last, valid[static_cast<size_t>(bh / H)] - 1);
             ++n)
          count += of.keys[static_cast<size_t>(bh * N + n)] == cluster;
        return count;
      };
      if (of.keys[static_cast<size_t>(bh * N + j)] != cluster) return false;
      const int64_t n = keys_to(i), rank = keys_to(j);
      if (mask.causal) return rank > n - window_ && rank <= n;
      return rank > n - (window_ - half) && rank <= n + half;
    };
    return naive::softmax_attention(scaled_scores(in.q, in.k), in.v, mask, allowed);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    int64_t slots = clusters_ * window_;
    if (options_.length > 0) slots = std::min(slots, options_.length);
    return std::make_unique<RoutingState>(key_slots(options_, batch, slots, dtype),
                                          static_cast<size_t>(batch * options_.heads * clusters_));
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<RoutingState&>(any_state);
    const Clusters of = decide_clusters(in, &RoutingAttention::nearest);
    std::vector<KeyTilesPtr> sets;
    for (size_t bh = 0; bh < of.queries.size(); ++bh) {
      const auto ring = [&](int32_t cluster) -> RoutingState::Ring& {
        return state.rings[bh * static_cast<size_t>(clusters_) + static_cast<size_t>(cluster)];
      };
      const int32_t slot = take_slot(state, bh, ring(of.keys[bh]));
      write_slot(state.slots.keys, in.k.value(), bh, slot);
      write_slot(state.slots.values, in.v.value(), bh, slot);
      KeyTiles::Part part;
      part.keys = ring(of.queries[bh]).slots;
      if (of.queries[bh] != of.keys[bh]) part.keys.push_back(slot);
      part.sees = [](int64_t, const int32_t*, int64_t count) { return key_bits(0, count); };
      sets.push_back(
          std::make_shared<const KeyTiles>(1, state.slots.keys.size(2), std::vector{part}));
    }
    return sparse_step(state.slots, in, [&](int64_t sequence, int64_t head) {
      return sets[static_cast<size_t>(sequence * options_.heads + head)];
    });
  }

  // As if clusters had equal sizes, with the products of rows and centroids.
  AttentionFlops flops(int64_t length) const override {
    const auto N = static_cast<double>(std::max<int64_t>(length, 1)),
               D = static_cast<double>(options_.key_size),
               M = static_cast<double>(options_.value_size), C = static_cast<double>(clusters_),
               w = static_cast<double>(window_),
               local = static_cast<double>(local_heads_) / static_cast<double>(options_.heads);
    const auto keys_of = [w](double size) {
      const double window = std::min(w, size);
      return window * (1 - window / (2 * size)) + 0.5;
    };
    const double keys = local * keys_of(N) + (1 - local) * keys_of(N / C),
                 choice = (1 - local) * 4 * C * D;
    return {choice + 2 * keys * (D + M), choice + 2 * keys * (4 * D + 3 * M)};
  }

 private:
  struct Clusters {
    std::vector<int32_t> queries, keys;  // [B,H,N]
  };
  using Nearest = Tensor (RoutingAttention::*)(const Tensor&) const;

  Clusters decide_clusters(const AttentionInputs& in, Nearest method) const {
    const Shape shape{in.q.size(0), in.q.size(1), 1, in.q.size(2)};
    const auto clusters = [&](const Var& x) {
      return decide(shape, clusters_, [&] { return (this->*method)(x.value()); })
          .to_vector<int32_t>();
    };
    std::vector<int32_t> queries = clusters(in.q);
    return {std::move(queries), clusters(in.k)};
  }

  // The sets of a head, of clusters [N].
  KeyTilesPtr tiles(std::vector<int32_t> queries, std::vector<int32_t> keys, int64_t valid,
                    bool causal, bool local) const {
    const auto N = static_cast<int64_t>(queries.size());
    const auto window = static_cast<int32_t>(std::min(window_, 2 * N));
    const std::vector<int32_t> of_own = keys;  // the cluster of the key at each query
    std::fill(keys.begin() + valid, keys.end(), -1);
    std::vector<BucketRanges> ranges;
    BucketRanges& seen = ranges.emplace_back(std::move(queries), std::move(keys), clusters_);
    for (int32_t i = 0; i < N; ++i) {
      const auto at = static_cast<size_t>(i);
      const int32_t n = seen.before[at] + (seen.of_keys[at] == seen.of_queries[at] ? 1 : 0);
      seen.first[at] = local ? i - window + 1 : causal ? n - window : n - (window + 1) / 2;
      seen.end[at] = causal ? n : local ? i + window : n + window / 2;
    }
    std::vector<int32_t> existing(static_cast<size_t>(valid));
    for (size_t i = 0; i < existing.size(); ++i) existing[i] = static_cast<int32_t>(i);
    std::vector<KeyTiles::Lists> lists;
    lists.push_back(bucket_tiles(ranges, 0));
    if (valid > 0) lists.push_back(own_keys(existing));
    return std::make_shared<const KeyTiles>(N, N, std::move(lists));
  }

  // The slot of a new key: the oldest one of a full ring, else one that is free.
  int32_t take_slot(RoutingState& state, size_t bh, RoutingState::Ring& ring) const {
    if (static_cast<int64_t>(ring.slots.size()) == window_) {
      const int32_t slot = ring.slots[ring.oldest];
      ring.oldest = (ring.oldest + 1) % ring.slots.size();
      return slot;
    }
    const auto slot = state.used[bh]++;
    if (slot == state.slots.keys.size(2)) {  // more positions than `length`
      for (Tensor* const slots : {&state.slots.keys, &state.slots.values}) {
        const int64_t there = slots->size(2);
        const Tensor larger(slots->shape().with(2, 2 * there), slots->dtype());
        with_rows(*slots, [&](auto* from, int64_t width) {
          auto* const to = larger.data<std::remove_pointer_t<decltype(from)>>();
          for (int64_t n = 0; n < slots->size(0) * slots->size(1); ++n)
            std::copy_n(from + n * there * width, there * width, to + 2 * n * there * width);
        });
        *slots = larger;
      }
      state.slots.positions.resize(static_cast<size_t>(state.slots.keys.size(2)));
    }
    ring.slots.push_back(slot);
    return slot;
  }

  template <typename F>
  static void with_rows(const Tensor& x, const F& f) {
    with_real(x.dtype(), "routing", [&](auto zero) { f(x.data<decltype(zero)>(), x.size(-1)); });
  }

  // Row bh of x [B,H,1,W] into a slot of slots [B,H,count,W].
  static void write_slot(const Tensor& slots, const Tensor& x, size_t bh, int32_t slot) {
    with_rows(slots, [&](auto* to, int64_t width) {
      const auto* const from = x.data<std::remove_pointer_t<decltype(to)>>();
      const auto row = static_cast<int64_t>(bh);
      std::copy_n(from + row * width, width, to + (row * slots.size(2) + slot) * width);
    });
  }
};

}  // namespace

AttentionEntry routing_entry() {
  using namespace declare;
  return {
      .name = "routing",
      .summary = "softmax attention over the keys of the query's cluster (Routing Transformer)",
      .source = "Roy 2020",
      .settings = {labeled_if_changed(defining(
                       ".centroid",
                       integer("clusters", 0, {0, 65536},
                               "clusters of a head; 0: the square root of `length`, rounded up"))),
                   labeled_if_changed(integer("window", 128, at_least(1),
                                              "keys of its cluster that a position sees")),
                   labeled_if_changed(
                       integer("local_heads", 0, at_least(0),
                               "first heads, which see near positions in place of clusters")),
                   labeled_if_changed(
                       choice("assign", "recent", {"recent", "top"},
                              "keys of a cluster: the last ones, or rows nearest its centroid")),
                   real("centroid_decay", 0.999, {0, 1}, "of the means of the rows of a cluster"),
                   real("commitment", 1e-4, at_least(0),
                        "weight of the loss that pulls rows to centroids")},
      .make = [](const AttentionOptions& options) -> std::unique_ptr<Attention> {
        if (options.settings.text("assign") == "top") return make_nearest_rows(options);
        return std::make_unique<RoutingAttention>(options);
      },
      .variants = {{{"clusters", int64_t{3}}, {"window", int64_t{20}}},
                   {{"clusters", int64_t{5}}, {"window", int64_t{7}}, {"local_heads", int64_t{1}}},
                   {{"clusters", int64_t{3}},
                    {"window", int64_t{70}},
                    {"assign", std::string("top")}},
                   {{"clusters", int64_t{9}},
                    {"window", int64_t{7}},
                    {"assign", std::string("top")},
                    {"local_heads", int64_t{1}}}},
      .cpu_only = true,
      .tensors = {{"centroids", "HCD", "clusters", false, "; default: sampled with --seed"}}};
}

}  // namespace linea

// Attention over the leaves and nodes of a binary tree, fine near i and coarse far away (BP-Transformer). Nodes are
// aligned spans of 2^l positions, their keys and values the means of theirs, and each counts as its positions:
//
//   y_i = sum_{s in S_i} a_is v_s / sum_{s in S_i} a_is,  a_is = exp(q_i.k_s / sqrt(D) + l_s ln 2)
//
// S_i tiles the positions [0, i] once: from i + 1 backward, at each level l from 0 on, `keys` spans, or one more so
// that they begin at a multiple of 2^(l+1), until 0. Not causal: likewise forward from i + 1, and what is left
// before the end by ever smaller spans. The recurrent form keeps the last nodes of each level.
// Source: Ye et al. 2019, "BP-Transformer", section 3; there each level has `keys` spans, edges have relative
// embeddings, and nodes have states through the layers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/key_ranges.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// Spans [first, end) of a level.
struct LevelSpans {
  int64_t level, first, end;
};
using Walk = std::vector<LevelSpans>;

// The spans of [0, end).
void walk_back(int64_t end, int64_t keys, Walk& walk) {
  for (int64_t level = 0; end > 0; ++level, end /= 2) {
    const int64_t count = std::min(end, keys + (end - std::min(end, keys)) % 2);
    walk.push_back({level, end - count, end});
    end -= count;
  }
}

// The spans of [first, last).
void walk_on(int64_t first, int64_t last, int64_t keys, Walk& walk) {
  int64_t level = 0;
  for (; first >> level << level < last && first < last; ++level) {
    const int64_t begin = first >> level, fit = last >> level, wanted = keys + (begin + keys) % 2,
                  end = std::min(fit, begin + wanted);
    if (end > begin) walk.push_back({level, begin, end});
    first = std::max(begin, end) << level;
    if (end < begin + wanted) break;  // the rest is smaller than a span
  }
  while (first < last && level > 0) {
    --level;
    if ((first >> level) + 1 > last >> level) continue;
    walk.push_back({level, first >> level, (first >> level) + 1});
    first += int64_t{1} << level;
  }
}

Walk walk_of(int64_t i, int64_t valid, bool causal, int64_t keys) {
  Walk walk;
  const int64_t seen = std::min(i + 1, valid);
  walk_back(seen, keys, walk);
  if (!causal) walk_on(seen, valid, keys, walk);
  return walk;
}

// Where each level begins in the list of all nodes, and their number at the end.
std::vector<int64_t> level_offsets(int64_t N) {
  std::vector<int64_t> offsets = {0};
  for (int64_t level = 0; N >> level > 0; ++level) offsets.push_back(offsets.back() + (N >> level));
  return offsets;
}

// All nodes of x [B,H,N,D], level by level.
Var nodes_of(const Var& x) {
  std::vector<Var> levels = {x};
  while (levels.back().size(2) > 1) levels.push_back(pool_spans(levels.back(), 2, 2));
  return join_rows(levels);
}

// x [B,H,n,D] with one column more: the same number in all rows of a range.
Var with_column(const Var& x, const std::vector<double>& of_rows) {
  const int64_t BH = x.size(0) * x.size(1);
  std::vector<double> values;
  for (int64_t bh = 0; bh < BH; ++bh) values.insert(values.end(), of_rows.begin(), of_rows.end());
  return join_columns({x, Var(Tensor::from(values, x.shape().with(-1, 1), x.dtype()))});
}

class BptAttention final : public Attention {
 public:
  explicit BptAttention(const AttentionOptions& options)
      : Attention(options, {.step_capturable = false, .any_length = false}),
        keys_(std::min<int64_t>(options.settings.integer("keys"), int64_t{1} << 30)),
        scale_(1 / std::sqrt(static_cast<double>(options.key_size))),
        positions_(options.length > 0 ? options.length : int64_t{1} << 16),
        rings_{0},
        sets_([](int64_t N) { return level_offsets(N).back(); },
              [keys = keys_](const SetSize& size, int64_t i, std::vector<KeyRange>& ranges) {
                const std::vector<int64_t> offsets = level_offsets(size.positions);
                for (const auto& [level, first, end] : walk_of(i, size.valid, size.causal, keys)) {
                  const int64_t at = offsets[static_cast<size_t>(level)];
                  ranges.push_back({at + first, at + end});
                }
              }) {
    for (int64_t level = 0; positions_ >> level > 0; ++level)
      rings_.push_back(rings_.back() + ring(level));
    // The nodes, twice, and their gradients.
    traits_.saved_scalars =
        10.0 * static_cast<double>(options.key_size + options.value_size + 1) + 8;
  }

  // The bias is a column of k, which a column 1 of q reads.
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    const int64_t N = in.q.size(2);
    std::vector<double> biases;
    for (int64_t level = 0; N >> level > 0; ++level)
      biases.insert(biases.end(), static_cast<size_t>(N >> level), bias(level));
    const Var q = with_column(in.q, std::vector<double>(static_cast<size_t>(N), 1)),
              k = with_column(nodes_of(clear_padding(in.k, mask.valid)), biases),
              v = nodes_of(clear_padding(in.v, mask.valid));
    return sparse_attention({q, k, v, Var()}, {mask.causal, {}}, sets_.of(N, mask), scale_);
  }

  // Means by a matrix of all nodes, and the logs of sizes added to all scores.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2);
    const std::vector<int64_t> offsets = level_offsets(N);
    const int64_t nodes = offsets.back();
    const std::vector<int32_t> valid = mask.lengths(B, N);
    std::vector<double> shares, sizes;
    for (int64_t bh = 0; bh < B * H; ++bh) {
      for (int64_t level = 0; N >> level > 0; ++level)
        for (int64_t span = 0; span < N >> level; ++span)
          for (int64_t j = 0; j < N; ++j)
            shares.push_back(j >> level == span ? std::ldexp(1.0, static_cast<int>(-level)) : 0);
      std::vector<double> rows(static_cast<size_t>(N * nodes),
                               -std::numeric_limits<double>::infinity());
      for (int64_t i = 0; i < N; ++i)
        for (const auto& [level, first, end] :
             walk_of(i, valid[static_cast<size_t>(bh / H)], mask.causal, keys_))
          for (int64_t span = first; span < end; ++span)
            rows[static_cast<size_t>(i * nodes + offsets[static_cast<size_t>(level)] + span)] =
                static_cast<double>(level) * std::log(2.0);
      sizes.insert(sizes.end(), rows.begin(), rows.end());
    }
    const Var means(Tensor::from(shares, {B, H, nodes, N}, in.q.dtype()));
    const Var k = matmul(means, clear_padding(in.k, mask.valid)),
              v = matmul(means, clear_padding(in.v, mask.valid)),
              scores = scale(matmul(in.q, k, false, true), scale_);
    return matmul(softmax(add(scores, Var(Tensor::from(sizes, {B, H, N, nodes}, in.q.dtype())))),
                  v);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    const int64_t slots = rings_.back();
    auto state =
        std::make_unique<KeySlots>(Shape{batch, options_.heads, slots, options_.key_size + 1},
                                   Shape{batch, options_.heads, slots, options_.value_size}, dtype);
    // Slots that are not in use are weighed by 0.
    state->keys = Tensor::zeros(state->keys.shape(), dtype);
    state->values = Tensor::zeros(state->values.shape(), dtype);
    state->positions.resize(static_cast<size_t>(slots), -1);
    return state;
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<KeySlots&>(any_state);
    const NoGrad no_gradients;
    const int64_t now = state.next++, D = options_.key_size;
    require(now < positions_,
            "bpt has nodes for {} positions, and one more is asked for: raise `length`",
            positions_);
    Var k = in.k, v = in.v;
    for (int64_t level = 0, node = now; level < levels(); ++level, node /= 2) {
      const int64_t slot = slot_of(level, node);
      write_slot(state, slot, {in.q, with_column(k, {bias(level)}), v, Var()});
      state.positions[static_cast<size_t>(slot)] = static_cast<int32_t>(node);
      if (node % 2 == 0) break;  // its parent is not complete; rings have even sizes
      k = columns(pool_spans(Var(read_slots(state.keys, slot - 1, 2)), 2, 2), 0, D);
      v = pool_spans(Var(read_slots(state.values, slot - 1, 2)), 2, 2);
    }
    const Walk walk = walk_of(now, now + 1, true, keys_);
    std::vector<bool> seen(state.positions.size());
    for (const auto& [level, first, end] : walk)
      for (int64_t node = first; node < end; ++node)
        seen[static_cast<size_t>(slot_of(level, node))] = true;
    const KeyTilesPtr tiles = slot_tiles(static_cast<int64_t>(seen.size()), [&](int64_t slot) {
      return static_cast<bool>(seen[static_cast<size_t>(slot)]);
    });
    return sparse_step(
        state, {with_column(in.q, {1.0}), in.k, in.v, Var()},
        [&](int64_t, int64_t) { return tiles; }, scale_);
  }

  // The nodes that the last position reads.
  AttentionFlops flops(int64_t length) const override {
    double nodes = 0;
    for (const auto& [level, first, end] : walk_of(length - 1, length, true, keys_))
      nodes += static_cast<double>(end - first);
    return softmax_flops(options_, nodes);
  }

 private:
  // What the column of k holds, in the unit of scores before they are scaled.
  double bias(int64_t level) const { return static_cast<double>(level) * std::log(2.0) / scale_; }

  // A ring of each level for the nodes that may still be read or joined: the walk reads up to keys_ + 1 of
  // them, and begins less than as many before the last node.
  int64_t ring(int64_t level) const {
    const int64_t nodes = positions_ >> level;
    return std::min(2 * (keys_ + 2), nodes + nodes % 2);
  }
  int64_t levels() const { return static_cast<int64_t>(rings_.size()) - 1; }
  int64_t slot_of(int64_t level, int64_t node) const {
    return rings_[static_cast<size_t>(level)] + node % ring(level);
  }

  int64_t keys_;
  double scale_;
  int64_t positions_;           // at most, of the recurrent form
  std::vector<int64_t> rings_;  // where each begins, and their end
  KeyRangeSets sets_;
};

}  // namespace

AttentionEntry bpt_entry() {
  using namespace declare;
  return {.name = "bpt",
          .summary = "softmax attention over a binary tree of means, fine near and coarse far",
          .source = "Ye 2019",
          .settings = {labeled(integer("keys", 16, at_least(1), "spans of a level, or one more"))},
          .make = construct<BptAttention>,
          .variants = {{{"keys", int64_t{3}}}, {{"keys", int64_t{16}}}},
          .cpu_only = true};
}

}  // namespace linea

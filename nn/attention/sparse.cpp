// Softmax attention over a pattern of keys (autograd/sparse_attention.h, nn/attention/sparse_pattern.h).
// Sources of the patterns: nn/attention/sparse_aliases.cpp. Its recurrent form keeps the keys and values
// that later positions see.
#include "nn/attention/sparse.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "autograd/key_ranges.h"
#include "autograd/qkv_layout.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"
#include "nn/attention/sparse_pattern.h"

namespace linea {
namespace {

class SparseAttention final : public Attention {
 public:
  SparseAttention(const AttentionOptions& options, int64_t block,
                  const SparseExpressions& expressions)
      : Attention(options, {.not_causal = expressions.not_causal,
                            .packed_qkv = true,
                            .softmax_weights = true,
                            .step_capturable = false,  // the host chooses the keys
                            .rotary = Rotary::inputs}) {
    const PatternSizes sizes{block,        options.image_width, options.image_channels,
                             options.seed, options.layer,       options.heads};
    const auto chosen = [&](const std::string& expression) {
      std::vector<KeyPattern> all = parse_pattern(expression, sizes);
      if (expressions.by_head) return all;
      return std::vector<KeyPattern>{all[static_cast<size_t>(options.turn) % all.size()]};
    };
    patterns_[0] = chosen(expressions.bidirectional);
    if (traits_.not_causal.empty()) patterns_[1] = chosen(expressions.causal);
    for (const KeyPattern& pattern : patterns_[1])
      if (pattern.has(PatternAtom::Kind::last))
        traits_.not_causal = "the last positions are not known";
    for (const std::vector<KeyPattern>& patterns : patterns_)
      for (const KeyPattern& pattern : patterns)
        traits_.heads_differ |= patterns.size() > 1 || pattern.needs_head();
    for (const KeyPattern& pattern : patterns_[1])
      traits_.state_growth = std::max(traits_.state_growth, pattern.growth());
    traits_.details = "pattern " + expressions.bidirectional;
    if (traits_.not_causal.empty() && expressions.causal != expressions.bidirectional)
      traits_.details += ", causal " + expressions.causal;
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Heads heads = Heads::of(in);
    const int64_t N = heads.q.length;
    return sparse_attention(
        in, mask,
        [=, this, causal = mask.causal, keys = mask.lengths(heads.q.batches, N)](int64_t sequence,
                                                                                 int64_t head) {
          return tiles(N, keys[static_cast<size_t>(sequence)], causal, head);
        });
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t N = in.q.size(2), H = in.q.size(1);
    std::vector<PatternView> views;
    const std::vector<int32_t> keys = mask.lengths(in.q.size(0), N);
    for (int64_t bh = 0; bh < in.q.size(0) * H; ++bh)
      views.emplace_back(pattern_of(mask.causal, bh % H), keys[static_cast<size_t>(bh / H)],
                         mask.causal, bh % H);
    return naive::softmax_attention(scaled_scores(in.q, in.k), in.v, mask,
                                    [&](int64_t bh, int64_t i, int64_t j) {
                                      return views[static_cast<size_t>(bh)].sees(i, j);
                                    });
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    require_form(true);
    int64_t slots = 0;
    for (const KeyPattern& pattern : patterns_[1]) slots += pattern.slots();
    if (options_.length > 0) slots = std::min(slots, options_.length);
    return std::make_unique<KeySlots>(key_slots(options_, batch, slots, dtype));
  }

  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    const std::vector<KeyPattern>& patterns = patterns_[1];
    auto& slots = dynamic_cast<KeySlots&>(state);
    const bool random = std::any_of(patterns.begin(), patterns.end(),
                                    [](const KeyPattern& pattern) { return pattern.needs_head(); });
    // Heads of one pattern share their set.
    const int64_t sets =
        random ? options_.heads : std::min(options_.heads, static_cast<int64_t>(patterns.size()));
    std::vector<PatternView> views;
    for (int64_t head = 0; head < sets; ++head)
      views.emplace_back(pattern_of(true, head), slots.next + 1, true, head);
    const SlotRules rules{[&](int64_t position, int64_t now) {
                            return std::all_of(patterns.begin(), patterns.end(),
                                               [&](const KeyPattern& pattern) {
                                                 return pattern.has_passed(position, now);
                                               });
                          },
                          traits_.state_growth == 2 ? 0 : 16};
    const int64_t now = slots.next;
    add_position(slots, in, rules);
    std::vector<KeyTilesPtr> tiles;
    for (const PatternView& view : views)
      tiles.push_back(slot_tiles(static_cast<int64_t>(slots.positions.size()), [&](int64_t slot) {
        return view.sees(now, slots.positions[static_cast<size_t>(slot)]);
      }));
    return sparse_step(
        slots, in, [&](int64_t, int64_t head) { return tiles[static_cast<size_t>(head % sets)]; });
  }

  // The keys in the sets.
  AttentionFlops flops(int64_t length) const override {
    const int64_t N = std::max<int64_t>(length, 1);
    const bool causal = traits_.not_causal.empty();
    double pairs = 0;
    for (int64_t head = 0; head < options_.heads; ++head)
      pairs += static_cast<double>(tiles(N, N, causal, head)->pairs());
    return softmax_flops(options_, pairs / static_cast<double>(N * options_.heads));
  }

 private:
  const KeyPattern& pattern_of(bool causal, int64_t head) const {
    require_form(causal);
    const std::vector<KeyPattern>& patterns = patterns_[causal ? 1 : 0];
    return patterns[static_cast<size_t>(head) % patterns.size()];
  }

  // The tiles of a head, which are computed once; of patterns that do not depend on the number of keys,
  // those of N.
  KeyTilesPtr tiles(int64_t N, int64_t keys, bool causal, int64_t head) const {
    const KeyPattern& pattern = pattern_of(causal, head);
    if (!pattern.needs_length(causal)) keys = N;
    if (!pattern.needs_head()) head %= static_cast<int64_t>(patterns_[causal ? 1 : 0].size());
    const std::lock_guard<std::mutex> lock(mutex_);
    KeyTilesPtr& known = tiles_[{N, keys, causal, head}];
    if (known == nullptr) {
      if (tiles_.size() > kMaxTiles) tiles_ = {};
      return tiles_[{N, keys, causal, head}] = PatternView(pattern, keys, causal, head).tiles(N);
    }
    return known;
  }

  static constexpr size_t kMaxTiles = 1024;
  std::vector<KeyPattern> patterns_[2];  // bidirectional, causal
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int64_t, int64_t, bool, int64_t>, KeyTilesPtr> tiles_;
};

}  // namespace

std::unique_ptr<Attention> make_sparse(const AttentionOptions& options, int64_t block,
                                       const SparseExpressions& expressions) {
  return std::make_unique<SparseAttention>(options, block, expressions);
}

AttentionEntry sparse_entry() {
  using namespace declare;
  const auto variant = [](const char* pattern, const char* by = "layer") {
    return Settings{{"pattern", std::string(pattern)}, {"pattern_by", std::string(by)}};
  };
  return {.name = "sparse",
          .summary = "softmax attention over a pattern of keys",
          .source = "Child 2019, Beltagy 2020, Zaheer 2020, ...",
          .settings = {labeled(text("pattern", "band:128",
                                    "keys of a position: atoms joined by + (band:W, block:B, "
                                    "global:G, strided:L, ...), alternatives divided by /")),
                       labeled_if_changed(choice("pattern_by", "layer", {"layer", "head"},
                                                 "which take the alternatives in turn")),
                       of_model(integer("block", 64, at_least(1), "positions of a random block"))},
          .make =
              [](const AttentionOptions& options) {
                const std::string& pattern = options.settings.text("pattern");
                return make_sparse(options, options.settings.integer("block"),
                                   {.bidirectional = pattern,
                                    .causal = pattern,
                                    .by_head = options.settings.text("pattern_by") == "head"});
              },
          .variants = {variant("band:40"), variant("dilated:9x5"), variant("block:16x1"),
                       variant("block:24+global:5+last:3"), variant("band:3+random:2"),
                       variant("band:9/strided:9", "head"), variant("block:16+fixed:16x2"),
                       variant("row+column"), variant("block2d:3x4"), variant("local2d:2x4x2x3")},
          .cpu_only = true};
}

}  // namespace linea

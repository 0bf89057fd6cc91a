// Softmax attention over the `keys` keys of largest q.k among those that a query may see, and itself
// (autograd/top_keys.h): what approximate searches for these keys are measured by. Its recurrent form
// keeps all keys and values.
// Source: top-k attention of Katharopoulos et al. 2020, fast-transformers.
#include <algorithm>

#include "autograd/decisions.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/sparse_attention.h"
#include "autograd/top_keys.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// The definition: all scores of a query, sorted.
Tensor sorted_keys(const AttentionInputs& in, const AttentionMask& mask, const Shape& shape) {
  const int64_t B = shape[0], H = shape[1], N = shape[2], K = shape[3] - 1, D = in.q.size(3);
  const std::vector<double> q = in.q.value().to_doubles(), k = in.k.value().to_doubles();
  const std::vector<int32_t> valid = mask.lengths(B, N);
  std::vector<int32_t> result;
  for (int64_t bh = 0; bh < B * H; ++bh)
    for (int64_t i = 0; i < N; ++i) {
      const int64_t existing = valid[static_cast<size_t>(bh / H)];
      const int64_t seen = mask.causal ? std::min(i + 1, existing) : existing;
      std::vector<double> scores;
      for (int64_t j = 0; j < seen; ++j)
        scores.push_back(
            rounded_product(q.data() + (bh * N + i) * D, k.data() + (bh * N + j) * D, D));
      std::vector<int32_t> chosen = largest_first(scores, K);
      std::erase(chosen, i);
      if (i < existing) chosen.push_back(static_cast<int32_t>(i));
      std::sort(chosen.begin(), chosen.end());
      chosen.resize(static_cast<size_t>(K + 1), -1);
      result.insert(result.end(), chosen.begin(), chosen.end());
    }
  return Tensor::from(result, shape);
}

class TopkAttention final : public Attention {
 public:
  explicit TopkAttention(const AttentionOptions& options)
      : Attention(options, {.softmax_weights = true,
                            .any_order = true,
                            .decides = true,
                            .step_capturable = false,
                            .rotary = Rotary::inputs,
                            .state_growth = 2}),
        keys_(options.settings.integer("keys")) {
    // With the indices, a sum, and a few for the rows that are computed at a time.
    traits_.saved_scalars = static_cast<double>(keys_ + 1 + 4);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return top_keys_attention(in, mask, keys_);
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t N = in.q.size(2);
    const Shape shape = in.q.shape().with(-1, std::min(keys_, N) + 1);
    const std::vector<int32_t> chosen =
        decide(shape, N, [&] { return sorted_keys(in, mask, shape); }).to_vector<int32_t>();
    return naive::softmax_attention(
        scaled_scores(in.q, in.k), in.v, mask, [&](int64_t bh, int64_t i, int64_t j) {
          const auto first = chosen.begin() + (bh * N + i) * shape[3];
          return std::find(first, first + shape[3], static_cast<int32_t>(j)) != first + shape[3];
        });
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<KeySlots>(key_slots(options_, batch, 64, dtype));
  }

  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    auto& slots = dynamic_cast<KeySlots&>(state);
    add_position(slots, in, {});
    Heads heads{in.q.value(), slots.keys, slots.values};
    heads.k.length = heads.v.length = slots.next;
    return top_keys_step(heads, keys_);
  }

  // Scores of all keys for the choice, of which a causal query has half.
  AttentionFlops flops(int64_t length) const override {
    const auto choice = static_cast<double>((length + 1) * options_.key_size);
    const AttentionFlops read =
        softmax_flops(options_, static_cast<double>(std::min(keys_, length)));
    return {choice + read.forward, choice + read.training};
  }

 private:
  int64_t keys_;
};

}  // namespace

AttentionEntry topk_entry() {
  using namespace declare;
  return {.name = "topk",
          .summary = "softmax attention over the keys of largest q.k",
          .source = "fast-transformers",
          .settings = {labeled(integer("keys", 32, at_least(1), "keys of a position"))},
          .make = construct<TopkAttention>,
          .variants = {{{"keys", int64_t{8}}}},
          .cpu_only = true};
}

}  // namespace linea

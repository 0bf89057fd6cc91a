// Linear attention: y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j), and its other
// update rules, by --rule: sum, gated (S_t = g_t S_{t-1} + (1 - g_t) phi(k_t) v_t^T), delta
// (autograd/delta_attention.h). Sources: Katharopoulos, Vyas, Pappas, Fleuret 2020, "Transformers
// are RNNs", eq. 4-5, 18-20; Peng et al. 2021, "Random feature attention", section 3.4; Schlag,
// Irie, Schmidhuber 2021, "Linear Transformers are secretly fast weight programmers", section 4.
#include <algorithm>
#include <cmath>

#include "autograd/delta_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/feature_map.h"

namespace linea {
namespace {

std::unique_ptr<FeatureMap> make_map(const AttentionOptions& options) {
  const std::string& feature = options.settings.text("feature");
  return make_feature_map(feature, feature == "dpfp" ? options.settings.integer("nu") : 1);
}

// The sum or the gated rule.
class SumRule final : public MappedAttention {
 public:
  SumRule(const AttentionOptions& options, bool gated)
      : MappedAttention(options), gated_(gated), map_(make_map(options)) {
    map_->features(options.key_size);  // refuses what cannot be before the first batch
  }

  bool gated() const override { return gated_; }
  bool causal_only() const override { return gated_; }
  // Heads remember for 2, 4, 8, ... positions at first, up to 128.
  double initial_gate_bias(int64_t head) const override {
    return std::log(std::exp2(static_cast<double>(std::min<int64_t>(head, 6) + 1)) - 1 + 1e-3);
  }

 private:
  std::shared_ptr<const FeatureMap> map() const override { return map_; }

  bool gated_;
  std::shared_ptr<const FeatureMap> map_;
};

class DeltaRule final : public Attention {
 public:
  explicit DeltaRule(const AttentionOptions& options) : options_(options), map_(make_map(options)) {
    map_->features(options.key_size);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return delta_attention(map_, in, {mask.causal, mask.valid, options_.segment, options_.chunk});
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return naive::quadratic(naive::Rule::delta, map_, in, mask);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    const int64_t features = map_->features(options_.key_size);
    return std::make_unique<DeltaState>(Shape{batch, options_.heads, features, options_.value_size},
                                        dtype);
  }
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return delta_step(*map_, dynamic_cast<DeltaState&>(state), in);
  }

  bool gated() const override { return true; }
  const char* gate_name() const override { return "beta"; }
  bool causal_only() const override { return true; }
  // forward 6 F M: S^T phi(k), S += phi(k) v^T, S^T phi(q); backward 16 F M: S again (4), dq, dS
  // (twice), dk (twice), dv
  std::optional<RecurrentFlops> recurrent_flops() const override {
    const auto elements =
        static_cast<double>(map_->features(options_.key_size) * options_.value_size);
    return RecurrentFlops{6 * elements, 22 * elements};
  }

 private:
  AttentionOptions options_;
  std::shared_ptr<const FeatureMap> map_;
};

std::unique_ptr<Attention> make(const AttentionOptions& options) {
  const std::string &rule = options.settings.text("rule"),
                    &feature = options.settings.text("feature");
  if (rule == "sum") return std::make_unique<SumRule>(options, false);
  require(feature != "square",
          "`rule` {} does not go with `feature` square; choose elu, relu, exp or dpfp", rule);
  if (rule == "gated") return std::make_unique<SumRule>(options, true);
  return std::make_unique<DeltaRule>(options);
}

std::vector<Settings> variants() {
  std::vector<Settings> result;
  for (const char* rule : {"sum", "gated", "delta"})
    for (const std::string& feature : feature_map_names()) {
      if (feature == "square" && std::string(rule) != "sum") continue;
      Settings& variant = result.emplace_back();
      variant["feature"] = feature;
      variant["rule"] = rule;
      if (feature == "dpfp") variant["nu"] = 2;
    }
  return result;
}

}  // namespace

AttentionEntry linear_attention_entry() {
  using namespace declare;
  return {"linear",
          "linear attention, with the sum, gated or delta update rule",
          "Katharopoulos 2020; gated: Peng 2021; delta: Schlag 2021",
          {labeled(InLabel::always, choice("feature", "elu", feature_map_names(),
                                           "feature map of queries and keys")),
           labeled(InLabel::if_changed,
                   only_with("feature", "dpfp",
                             integer("nu", 1, at_least(1), "F = 2 D nu features of dpfp"))),
           labeled(InLabel::if_changed,
                   defining(".gate.", choice("rule", "sum", {"sum", "gated", "delta"},
                                             "update rule of the state")))},
          make,
          variants()};
}

}  // namespace linea

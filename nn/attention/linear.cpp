// Linear attention: a feature map of --feature under an update rule of --rule (autograd/rules/). The
// sum rule is y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j). (Katharopoulos, Vyas,
// Pappas, Fleuret 2020, "Transformers are RNNs")
#include <algorithm>
#include <cmath>

#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/feature_map.h"

namespace linea {
namespace {

std::unique_ptr<FeatureMap> make_map(const AttentionOptions& options) {
  const std::string& feature = options.settings.text("feature");
  return make_feature_map(feature, feature == "dpfp" ? options.settings.integer("nu") : 1);
}

class LinearAttention final : public MappedAttention {
 public:
  LinearAttention(const AttentionOptions& options, const RulePtr& rule)
      : MappedAttention(options, make_map(options), rule) {
    map_->features(options.key_size);  // refuses what cannot be before the first batch
    if (!rule->spec().decay_gate) return;
    gate_.initial_bias.resize(static_cast<size_t>(options.heads * gate_.size));
    for (int64_t head = 0; head < options.heads; ++head)  // a decay is the last of a head
      gate_.initial_bias[static_cast<size_t>((head + 1) * gate_.size - 1)] = memory_bias(head);
  }

 private:
  // At first, heads remember for 2, 4, 8, ... positions, up to 128; or, for long, the first for 4
  // and the last for 2 N, in equal ratios.
  double memory_bias(int64_t head) const {
    const std::string& memory = options_.settings.text("memory");
    if (memory == "long" || (memory == "auto" && options_.length > 256)) {
      const double last = std::max(2.0 * static_cast<double>(options_.length), 4.0);
      const double share =
          static_cast<double>(head) / static_cast<double>(std::max<int64_t>(options_.heads - 1, 1));
      return std::log(4 * std::pow(last / 4, share) - 1);
    }
    return std::log(std::exp2(static_cast<double>(std::min<int64_t>(head, 6) + 1)) - 1 + 1e-3);
  }
};

// Whether squares of q and k are features for the rule.
bool takes_squares(const std::string& rule) { return rule == "sum"; }

std::unique_ptr<Attention> make(const AttentionOptions& options) {
  const std::string &rule = options.settings.text("rule"),
                    &feature = options.settings.text("feature");
  require(feature != "square" || takes_squares(rule),
          "`rule` {} does not go with `feature` square; choose elu, relu, exp or dpfp", rule);
  return std::make_unique<LinearAttention>(options, find_rule(rule));
}

// The rules that `memory` is a setting of.
std::vector<std::string> rules_with_decay_gate() {
  std::vector<std::string> names;
  for (const RulePtr& rule : rules())
    if (rule->spec().decay_gate) names.push_back(rule->spec().name);
  return names;
}

// That of the sum rule, the default, is the attention's own.
std::string sources() {
  std::vector<std::string> all;
  for (const RulePtr& rule : rules()) {
    const RuleSpec& spec = rule->spec();
    all.push_back(all.empty() ? spec.source : spec.name + ": " + spec.source);
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

std::vector<Settings> variants() {
  std::vector<Settings> result;
  for (const std::string& rule : rule_names())
    for (const std::string& feature : feature_map_names()) {
      if (feature == "square" && !takes_squares(rule)) continue;
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
  return {
      "linear",
      fmt::format("linear attention, with the update rules {}", fmt::join(rule_names(), ", ")),
      sources(),
      {labeled(InLabel::always, of_model(choice("feature", "elu", feature_map_names(),
                                                "feature map of queries and keys"))),
       labeled(InLabel::if_changed,
               only_with("feature", {"dpfp"},
                         of_model(integer("nu", 1, at_least(1), "F = 2 D nu features of dpfp")))),
       labeled(InLabel::if_changed,
               defining(".gate",
                        of_model(choice("rule", "sum", rule_names(), "update rule of the state")))),
       only_with("rule", rules_with_decay_gate(),
                 of_model(choice("memory", "short", {"short", "long", "auto"},
                                 "at first, heads remember for 2, 4, 8, ... positions, or up to "
                                 "twice the length; auto: long above 256 positions")))},
      make,
      variants()};
}

}  // namespace linea

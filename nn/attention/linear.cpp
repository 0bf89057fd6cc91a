// Linear attention: y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j), and its other
// update rules, by --rule: sum, gated (S_t = g_t S_{t-1} + (1 - g_t) phi(k_t) v_t^T), delta and
// gated-delta (autograd/delta_attention.h). Sources: Katharopoulos, Vyas, Pappas, Fleuret 2020, "Transformers
// are RNNs", eq. 4-5, 18-20; Peng et al. 2021, "Random feature attention", section 3.4; Schlag,
// Irie, Schmidhuber 2021, "Linear Transformers are secretly fast weight programmers", section 4;
// Yang, Kautz, Hatamizadeh 2025, "Gated delta networks".
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
  LinearAttention(const AttentionOptions& options, naive::Rule rule)
      : MappedAttention(options, make_map(options), rule) {
    map_->features(options.key_size);  // refuses what cannot be before the first batch
    if (!naive::decays(rule)) return;
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

std::unique_ptr<Attention> make(const AttentionOptions& options) {
  const std::string &rule = options.settings.text("rule"),
                    &feature = options.settings.text("feature");
  if (rule == "sum") return std::make_unique<LinearAttention>(options, naive::Rule::sum);
  require(feature != "square",
          "`rule` {} does not go with `feature` square; choose elu, relu, exp or dpfp", rule);
  return std::make_unique<LinearAttention>(options, rule == "gated"   ? naive::Rule::gated
                                                    : rule == "delta" ? naive::Rule::delta
                                                                      : naive::Rule::gated_delta);
}

const std::vector<std::string>& rules() {
  static const std::vector<std::string> names = {"sum", "gated", "delta", "gated-delta"};
  return names;
}

std::vector<Settings> variants() {
  std::vector<Settings> result;
  for (const std::string& rule : rules())
    for (const std::string& feature : feature_map_names()) {
      if (feature == "square" && rule != "sum") continue;
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
      "linear attention, with the sum, gated, delta or gated delta update rule",
      "Katharopoulos 2020; gated: Peng 2021; delta: Schlag 2021; gated delta: Yang 2025",
      {labeled(InLabel::always, of_model(choice("feature", "elu", feature_map_names(),
                                                "feature map of queries and keys"))),
       labeled(InLabel::if_changed,
               only_with("feature", {"dpfp"},
                         of_model(integer("nu", 1, at_least(1), "F = 2 D nu features of dpfp")))),
       labeled(InLabel::if_changed,
               defining(".gate.",
                        of_model(choice("rule", "sum", rules(), "update rule of the state")))),
       only_with("rule", {"gated", "gated-delta"},
                 of_model(choice("memory", "short", {"short", "long", "auto"},
                                 "at first, heads remember for 2, 4, 8, ... positions, or up to "
                                 "twice the length; auto: long above 256 positions")))},
      make,
      variants()};
}

}  // namespace linea

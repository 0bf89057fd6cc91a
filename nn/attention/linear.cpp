// Linear attention: a feature map of --feature under an update rule of --rule (autograd/rules/). The
// sum rule is y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j). (Katharopoulos, Vyas,
// Pappas, Fleuret 2020, "Transformers are RNNs")
#include <algorithm>
#include <cmath>

#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/feature_map.h"
#include "tensor/context.h"

namespace linea {
namespace {

std::unique_ptr<FeatureMap> make_map(const AttentionOptions& options) {
  const std::string& feature = options.settings.text("feature");
  return make_feature_map(feature, feature == "dpfp" ? options.settings.integer("nu") : 1);
}

// Decay and KeyNorm by name.
std::vector<std::string> decay_names() { return {"head", "fixed", "channel"}; }
std::vector<std::string> norm_names() { return {"sum", "unit", "none"}; }

// A setting where it applies, else `otherwise`.
std::string text_or(const Settings& settings, const char* key, const std::string& otherwise) {
  return settings.has(key) ? settings.text(key) : otherwise;
}

// The rule of the settings and, where its gates have one, their parameter.
struct ChosenRule {
  RulePtr rule;
  DecayGates gates;
  bool own_gates = true;  // those of autograd/rules/, of numbers from 0 to 1
};

// Features of both signs have no sums to divide by, and logs nothing else.
void check_norm(const RuleSpec& rule, const std::string& feature, const FeatureMap& map,
                KeyNorm norm) {
  const bool has_signs = feature == "silu" || feature == "identity";
  require(
      !has_signs || norm != KeyNorm::sum,
      "`feature` {} has both signs, which cancel in sums: it goes with `rule` delta, gated-delta "
      "or decay, and `key_norm` unit or none",
      feature);
  require(map.kind() == FeatureKind::values || norm == KeyNorm::sum,
          "`feature` {} is computed in logs: it goes with `key_norm` sum alone", feature);
  require(!rule.kind.corrects || norm != KeyNorm::none,
          "`key_norm` none does not go with `rule` {}: keys longer than 1 make its state grow; "
          "choose unit or sum",
          rule.name);
}

ChosenRule choose_rule(const AttentionOptions& options, const FeatureMap& map) {
  const Settings& settings = options.settings;
  ChosenRule chosen{find_rule(settings.text("rule")), {}};
  RuleSpec spec = chosen.rule->spec();
  const auto norm = static_cast<KeyNorm>(
      check_choice("key_norm", text_or(settings, "key_norm", "sum"), norm_names()));
  check_norm(spec, settings.text("feature"), map, norm);
  if (!settings.has("key_norm")) return chosen;  // of a rule with denominators
  DecayGates& gates = chosen.gates;
  if (settings.has("decay"))
    gates.decay =
        static_cast<Decay>(1 + check_choice("decay", settings.text("decay"), decay_names()));
  if (settings.has("beta_range"))
    gates.beta_range = static_cast<double>(settings.integer("beta_range"));
  require(gates.beta_range == 1 || spec.kind.corrects,
          "`beta_range` is of rules that correct: with `rule` {} leave it out", spec.name);
  chosen.own_gates = norm == KeyNorm::sum && spec.kind.corrects && gates.decay <= Decay::head;
  spec.kind.rotary = options.rotary;
  if (chosen.own_gates) {
    if (options.rotary) chosen.rule = make_delta_rule(spec);
    return chosen;
  }
  require(context().device.kind == DeviceKind::cpu,
          "`rule` {} with these `decay` and `key_norm` has no kernels for `device` cuda yet: leave "
          "`device` out",
          spec.name);
  require(text_or(settings, "memory", "short") == "short",
          "`memory` is of gates from 0 to 1: with `key_norm` {} or `decay` {} leave it out",
          text_or(settings, "key_norm", ""), text_or(settings, "decay", ""));
  gates.features = map.features(options.key_size);
  if (gates.decay == Decay::head || (gates.decay == Decay::channel && spec.kind.corrects))
    gates.log_rate = Var(Tensor::zeros({options.heads}, options.dtype), true);
  spec.kind.norm = norm;
  chosen.rule = make_delta_rule(with_decay_gates(spec, gates));
  return chosen;
}

class LinearAttention final : public MappedAttention {
 public:
  explicit LinearAttention(const AttentionOptions& options)
      : LinearAttention(options, make_map(options)) {}

  Parameters parameters() const override {
    if (!log_rate_.defined()) return {};
    return {{.name = "log_rate", .var = log_rate_, .optional = true}};
  }

 private:
  LinearAttention(const AttentionOptions& options, const FeatureMapPtr& map)
      : LinearAttention(options, map, choose_rule(options, *map)) {}
  LinearAttention(const AttentionOptions& options, const FeatureMapPtr& map,
                  const ChosenRule& chosen)
      : MappedAttention(options, map, chosen.rule), log_rate_(chosen.gates.log_rate) {
    map_->features(options.key_size);  // refuses what cannot be before the first batch
    if (chosen.own_gates)
      set_memory(chosen.rule->spec());
    else
      set_decays(chosen.gates, chosen.rule->spec().kind.corrects);
  }

  void set_memory(const RuleSpec& rule) {
    if (!rule.decay_gate) return;
    gate_.initial_bias.resize(static_cast<size_t>(options_.heads * gate_.size));
    for (int64_t head = 0; head < options_.heads; ++head)  // a decay is the last of a head
      gate_.initial_bias[static_cast<size_t>((head + 1) * gate_.size - 1)] = memory_bias(head);
  }

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

  // At first A of a head is uniform in (1, 16), and softplus of a decay's bias log-uniform in
  // (0.001, 0.1). (Gu, Dao 2024, "Mamba")
  void set_decays(const DecayGates& gates, bool corrects) {
    if (gates.decay == Decay::channel) {
      const int64_t rank = options_.settings.integer("gate_rank");
      gate_.rank = rank > 0 ? rank : corrects ? options_.key_size : 16;
      // log a, its gradient and that of u
      traits_.saved_scalars += 3 * static_cast<double>(gates.features);
    }
    if (!log_rate_.defined()) return;
    std::vector<double> log_rates;
    for (int64_t head = 0; head < options_.heads; ++head) {
      const RandomStream stream{options_.seed, Purpose::gates,
                                static_cast<uint32_t>(options_.layer * options_.heads + head)};
      log_rates.push_back(std::log(1 + 15 * double{random_uniform(stream, 0)}));
      for (int64_t gate = 0; gate < gate_.size; ++gate) {
        const double step = 1e-3 * std::pow(100, double{random_uniform(stream, 1 + gate)});
        gate_.initial_bias.push_back(
            corrects && gate == 0 ? 0 : step + std::log(-std::expm1(-step)));  // softplus^-1
      }
    }
    write_values(log_rates, log_rate_.value());
  }

  Var log_rate_;  // log A [H] of the decays
};

// Whether squares of q and k are features for the rule.
bool takes_squares(const std::string& rule) { return rule == "sum"; }

std::unique_ptr<Attention> make_linear(const AttentionOptions& options) {
  const std::string &rule = options.settings.text("rule"),
                    &feature = options.settings.text("feature");
  require(feature != "square" || takes_squares(rule),
          "`rule` {} does not go with `feature` square; choose elu, relu, exp or dpfp", rule);
  return std::make_unique<LinearAttention>(options);
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

std::vector<Settings> linear_variants() {
  std::vector<Settings> result;
  for (const std::string rule : {"sum", "gated", "delta", "gated-delta"})
    for (const std::string feature : {"elu", "relu", "exp", "square", "dpfp"}) {
      if (feature == "square" && !takes_squares(rule)) continue;
      Settings& variant = result.emplace_back();
      variant["feature"] = feature;
      variant["rule"] = rule;
      if (feature == "dpfp") variant["nu"] = 2;
    }
  result.push_back({{"feature", "silu"}, {"rule", "delta"}, {"key_norm", "unit"}});
  result.push_back({{"feature", "elu"}, {"rule", "decay"}});
  return result;
}

}  // namespace

AttentionEntry linear_attention_entry() {
  using namespace declare;
  const std::vector<std::string> without_denominator = {"delta", "gated-delta", "decay"};
  return {
      "linear",
      fmt::format("linear attention, with the update rules {}", fmt::join(rule_names(), ", ")),
      sources(),
      {labeled(choice("feature", "elu", feature_map_names(), "feature map of queries and keys")),
       labeled_if_changed(only_with("feature", {"dpfp"},
                                    integer("nu", 1, at_least(1), "F = 2 D nu features of dpfp"))),
       labeled_if_changed(
           defining(".gate", choice("rule", "sum", rule_names(), "update rule of the state"))),
       labeled_if_changed(
           only_with("rule", {"gated-delta", "decay"},
                     defining(".gate", choice("decay", "head", decay_names(),
                                              "what the state decays by: a number or a constant of "
                                              "the head, or a number of each feature")))),
       labeled_if_changed(only_with("decay", {"channel"},
                                    integer("gate_rank", 0, at_least(0),
                                            "rank of the projection to these decays; 0: 16, or the "
                                            "size of a head where values are corrected"))),
       labeled_if_changed(only_with(
           "rule", without_denominator,
           defining(".gate",
                    choice("key_norm", "sum", norm_names(),
                           "what features are divided by: their sum, their length, or nothing")))),
       labeled_if_changed(only_with(
           "key_norm", {"unit"},
           integer("beta_range", 1, {1, 2}, "beta is from 0 to this; 2: values may change sign"))),
       only_with("rule", rules_with_decay_gate(),
                 of_model(choice("memory", "short", {"short", "long", "auto"},
                                 "at first, heads remember for 2, 4, 8, ... positions, or up to "
                                 "twice the length; auto: long above 256 positions")))},
      make_linear,
      linear_variants()};
}

}  // namespace linea

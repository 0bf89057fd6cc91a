#include "autograd/update_rule.h"

#include "autograd/ops.h"
#include "base/settings.h"

namespace linea {

const std::vector<RulePtr>& rules() {
  static const std::vector<RulePtr> all = {sum_rule(), gated_rule(), delta_rule(),
                                           gated_delta_rule(), decay_rule()};
  return all;
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const RulePtr& rule : rules()) names.push_back(rule->spec().name);
  return names;
}

RulePtr find_rule(const std::string& name) {
  return rules()[check_choice("rule", name, rule_names())];
}

naive::Inputs UpdateRule::inputs(const FeatureMapPtr& map, const AttentionInputs& in,
                                 const AttentionMask& mask) const {
  require(!spec_.causal_only || mask.causal,
          "quadratic: the rule {} has an order of time: it is causal only", spec_.name);
  return naive::make_inputs(map, in, gates(in, mask.valid), mask.valid);
}

std::vector<Gate> each_gate(const AttentionInputs& in, int64_t count, const Tensor& valid) {
  const Shape one = check_heads("attention", in, valid);
  ops::require_shape("attention", "gate", in.gate.value(), {one[0], one[1], one[2], count});
  const Var gate = clear_padding(in.gate, valid);
  if (count == 1) return {{reshape(gate, one), in.gate_form, valid}};
  const Var apart = split_heads(reshape(gate, {one.numel(), 1, count}), count, 1);
  std::vector<Gate> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back({reshape(select(apart, i), one), in.gate_form, valid});
  return all;
}

Var Gate::value() const {
  return form == GateForm::value ? x : clear_padding(pointwise(Pointwise::sigmoid, x), valid);
}

Var Gate::log() const {
  const auto f = form == GateForm::value ? Pointwise::log_gate : Pointwise::log_sigmoid;
  return clear_padding(pointwise(f, x), valid);
}

Var Gate::log_one_minus() const {
  const auto f =
      form == GateForm::value ? Pointwise::log_one_minus_gate : Pointwise::log_one_minus_sigmoid;
  return clear_padding(pointwise(f, x), valid);
}

}  // namespace linea

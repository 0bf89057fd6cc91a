// The update rules: their definitions agree, and they are what the fast forms compute.
#include <gtest/gtest.h>

#include "autograd/delta_attention.h"
#include "autograd/linear_attention.h"
#include "autograd/update_rule.h"
#include "nn/feature_map.h"
#include "nn/verify/conformance_tools.h"
#include "tests/autograd/written_forms.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

using conformance::at_position;
using conformance::draw;

struct RuleProblem {
  RulePtr rule;
  FeatureMapPtr map;
  AttentionInputs in;
  Tensor dy;
};

// gate_at: the last gate of position 4, below 0: random.
RuleProblem rule_problem(const RulePtr& rule, const std::string& feature, double gate_at = -1) {
  const conformance::Sizes sizes{2, 3, 29, 5, 7};
  const conformance::Inputs x = draw(sizes, DType::f64);
  const auto size = static_cast<size_t>(rule->spec().gate.size);
  std::vector<double> gates = x.gate.to_doubles(), taken;
  for (size_t i = 0; i < gates.size(); ++i)
    if (i % 2 < size) taken.push_back(gates[i]);
  for (size_t i = 5 * size; i <= taken.size() && size > 0 && gate_at >= 0; i += 29 * size)
    taken[i - 1] = gate_at;
  const Var gate =
      size == 0 ? Var()
                : Var(Tensor::from(taken, x.gate.shape().with(-1, rule->spec().gate.size)), true);
  return {rule,
          make_feature_map(feature, 1),
          {Var(x.q, true), Var(x.k, true), Var(x.v, true), gate},
          x.dy};
}

Var naive_form(const RuleProblem& p) {
  return p.rule->quadratic(p.rule->inputs(p.map, p.in, {}), {});
}
Var fast_form(const RuleProblem& p) { return p.rule->forward(p.map, p.in, {}); }

// Gradients of q, k, v and the gates.
std::vector<Tensor> gradients_of_form(Var (*form)(const RuleProblem&), const RuleProblem& p) {
  backward(form(p), p.dy);
  std::vector<Tensor> result = {p.in.q.grad(), p.in.k.grad(), p.in.v.grad()};
  if (p.in.gate.defined()) result.push_back(p.in.gate.grad());
  return result;
}

// y of the recurrent form, a position at a time.
Tensor by_steps(const RuleProblem& p) {
  const Shape keys = p.in.q.shape();
  const auto state = p.rule->start(*p.map, keys[0], keys[1], keys[3], p.in.v.size(3), DType::f64);
  const Tensor y = Tensor::zeros(p.in.v.shape(), DType::f64);
  for (int64_t n = 0; n < keys[2]; ++n) {
    const auto row = [n](const Var& x) {
      return x.defined() ? Var(at_position(x.value(), n)) : Var();
    };
    const Tensor step =
        p.rule->step(*p.map, *state, {row(p.in.q), row(p.in.k), row(p.in.v), row(p.in.gate)});
    for (int64_t pair = 0; pair < keys[0] * keys[1]; ++pair)
      ops::copy_into(
          step.reshape({keys[0] * keys[1], p.in.v.size(3)}).select(pair),
          y.reshape({keys[0] * keys[1], keys[2], p.in.v.size(3)}).select(pair).select(n));
  }
  return y;
}

void expect_forms_agree(const RuleProblem& p) {
  const naive::Inputs in = p.rule->inputs(p.map, p.in, {});
  const Tensor expected = p.rule->quadratic(in, {}).value();
  EXPECT_LT(relative_error(written::recurrent(*p.rule, in), expected), 1e-12);
  for (const int64_t chunk : {1, 4, 29, 64})
    EXPECT_LT(relative_error(written::by_chunks(*p.rule, in, chunk), expected), 1e-12) << chunk;
  EXPECT_LT(relative_error(fast_form(p).value(), expected), 1e-12);
  EXPECT_LT(relative_error(by_steps(p), expected), 1e-12);
}

TEST(Rules, TheFormsAgree) {
  for (const RulePtr& rule : rules())
    for (const std::string feature : {"elu", "exp", "dpfp"}) {
      SCOPED_TRACE(feature + ", rule " + rule->spec().name);
      expect_forms_agree(rule_problem(rule, feature));
    }
}

TEST(Rules, AreFoundByTheirNames) {
  for (const std::string& name : rule_names()) EXPECT_EQ(find_rule(name)->spec().name, name);
  EXPECT_NE(message_of([] { find_rule("slow"); }).find("gated-delta"), std::string::npos);
}

// The log of a decay that any function of the layer's input gives: here it has no gate's form.
Var decay_of(const AttentionInputs& in, const Tensor& valid) {
  return clear_padding(pointwise(Pointwise::log_sigmoid, each_gate(in, 1, valid)[0].x), valid);
}
RulePtr summing(bool decays, bool weighs) {
  return make_sum_rule({.name = "of logs",
                        .gate = {.name = "u", .size = 1},
                        .causal_only = true,
                        .gates = [=](const AttentionInputs& in, const Tensor& valid) {
                          const Var log = decay_of(in, valid);
                          return RuleGates{.log_decay = decays ? log : Var(),
                                           .log_weight = weighs ? scale(log, -3) : Var()};
                        }});
}
// Without beta of its own: all is written.
RulePtr correcting() {
  return make_delta_rule(
      {.name = "of a log",
       .gate = {.name = "u", .size = 1},
       .causal_only = true,
       .gates = [](const AttentionInputs& in, const Tensor& valid) {
         const Var log = decay_of(in, valid);
         return RuleGates{
             .log_decay = log,
             .beta = clear_padding(Var(Tensor::full(log.shape(), log.dtype(), 1.0)), valid)};
       }});
}

TEST(Rules, TakeDecaysAndWeightsAsLogs) {
  const Tensor valid = Tensor::from(std::vector<int32_t>{29, 11}, {2});
  for (const RulePtr& rule :
       {summing(true, false), summing(false, true), summing(true, true), correcting()})
    for (const std::string feature : {"elu", "exp"}) {
      SCOPED_TRACE(feature + ", rule " + rule->spec().name);
      const RuleProblem p = rule_problem(rule, feature);
      expect_forms_agree(p);
      const std::vector<Tensor> expected = gradients_of_form(naive_form, p);
      const std::vector<Tensor> found = gradients_of_form(fast_form, rule_problem(rule, feature));
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_LT(relative_error(found[i], expected[i]), 1e-11) << "gradient " << i;
      const RuleProblem padded = rule_problem(rule, feature), same = rule_problem(rule, feature);
      const Var y = rule->forward(padded.map, padded.in, {true, valid}),
                exact =
                    rule->quadratic(rule->inputs(same.map, same.in, {true, valid}), {true, valid});
      EXPECT_LT(relative_error(y.value(), exact.value()), 1e-12);
      backward(y, padded.dy);
      backward(exact, same.dy);
      EXPECT_LT(relative_error(padded.in.gate.grad(), same.in.gate.grad()), 1e-11);
      EXPECT_LT(relative_error(padded.in.k.grad(), same.in.k.grad()), 1e-11);
    }
}

// A key of no weight adds nothing, to gradients either.
TEST(Rules, GradientsAreContinuousAtAGateOfOne) {
  for (const std::string feature : {"exp", "elu"}) {
    const auto gradients = [&](Var (*form)(const RuleProblem&), double gate_at) {
      return gradients_of_form(form, rule_problem(gated_rule(), feature, gate_at));
    };
    const std::vector<Tensor> at_one = gradients(naive_form, 1.0),
                              near = gradients(naive_form, 1 - 1e-12),
                              fast = gradients(fast_form, 1.0);
    for (size_t i = 0; i < at_one.size(); ++i) {
      SCOPED_TRACE(feature + ", gradient " + std::to_string(i));
      EXPECT_EQ(ops::count_nonfinite(at_one[i]), 0);
      EXPECT_LT(relative_error(fast[i], at_one[i]), 1e-9);
      // The gate's own is 0 there: a logistic function is flat where it is 1.
      if (i < 3) {
        EXPECT_LT(relative_error(near[i], at_one[i]), 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace linea

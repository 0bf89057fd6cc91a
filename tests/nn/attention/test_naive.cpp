// The definitions: their three forms agree, and they are what the fast forms compute.
#include <gtest/gtest.h>

#include "autograd/delta_attention.h"
#include "autograd/linear_attention.h"
#include "nn/attention/naive.h"
#include "nn/feature_map.h"
#include "nn/verify/conformance_tools.h"

namespace linea {
namespace {

using conformance::draw;
using naive::Rule;

struct NaiveProblem {
  Rule rule;
  std::shared_ptr<const FeatureMap> map;
  AttentionInputs in;
  Tensor dy;
};

// gate_at: of position 4, below 0: random.
NaiveProblem naive_problem(Rule rule, const std::string& feature, double gate_at = -1) {
  const conformance::Sizes sizes{2, 3, 29, 5, 7};
  const conformance::Inputs x = draw(sizes, DType::f64);
  const std::vector<double> both = x.gate.to_doubles();
  std::vector<double> gates;
  for (size_t i = 0; i < both.size(); i += 2) gates.push_back(both[i]);
  for (size_t i = 4; i < gates.size() && gate_at >= 0; i += 29) gates[i] = gate_at;
  const int64_t B = sizes.batch, H = sizes.heads, N = sizes.length;
  const Var gate(rule == Rule::gated_delta ? x.gate : Tensor::from(gates, {B, H, N}), true);
  return {rule,
          make_feature_map(feature, 1),
          {Var(x.q, true), Var(x.k, true), Var(x.v, true), rule == Rule::sum ? Var() : gate},
          x.dy};
}

Var naive_form(const NaiveProblem& p) { return naive::quadratic(p.rule, p.map, p.in, {}); }
Var fast_form(const NaiveProblem& p) {
  return naive::is_delta(p.rule) ? delta_attention(p.map, p.in, {})
                                 : linear_attention(p.map, p.in, {});
}

// Gradients of q, k, v and the gate.
std::vector<Tensor> gradients_of_form(Var (*form)(const NaiveProblem&), const NaiveProblem& p) {
  backward(form(p), p.dy);
  std::vector<Tensor> result = {p.in.q.grad(), p.in.k.grad(), p.in.v.grad()};
  if (p.in.gate.defined()) result.push_back(p.in.gate.grad());
  return result;
}

TEST(Naive, TheThreeFormsAgree) {
  for (const Rule rule : {Rule::sum, Rule::gated, Rule::delta, Rule::gated_delta}) {
    for (const std::string feature : {"elu", "exp", "dpfp"}) {
      SCOPED_TRACE(feature + ", rule " + std::to_string(static_cast<int>(rule)));
      const NaiveProblem p = naive_problem(rule, feature);
      const naive::Inputs in = naive::make_inputs(rule, p.map, p.in, {});
      const Tensor expected = naive::quadratic(rule, in, {}).value();
      EXPECT_LT(relative_error(naive::recurrent(rule, in), expected), 1e-12);
      for (const int64_t chunk : {1, 4, 29, 64})
        EXPECT_LT(relative_error(naive::chunked(rule, in, chunk), expected), 1e-12) << chunk;
      EXPECT_LT(relative_error(fast_form(p).value(), expected), 1e-12);
    }
  }
}

// A key of no weight adds nothing, to gradients either.
TEST(Naive, GradientsAreContinuousAtAGateOfOne) {
  for (const std::string feature : {"exp", "elu"}) {
    const auto gradients = [&](Var (*form)(const NaiveProblem&), double gate_at) {
      return gradients_of_form(form, naive_problem(Rule::gated, feature, gate_at));
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

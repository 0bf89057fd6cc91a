// An update rule: how a position changes the state S [F,M] of a head, and how queries read it. With a
// feature map, which makes phi(q) and phi(k) of q and k, it is an attention (nn/attention.h). One
// object has all forms of a rule, so that tests can demand that they agree:
//
//   forward, step  what trains and what samples: kernels in chunks; one position
//   quadratic      the definition, with gradients: all weights of a sequence at once
//
// tests/autograd/written_forms.h has the recurrence and the chunks as their formulas are written.
//
// There are two kinds: rules whose sums have denominators, and rules without, which may correct. A rule
// of a kind says what it makes of its gates, and has all forms. Adding one: docs/add-a-rule.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/attention_inputs.h"
#include "autograd/feature_map.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/tiles.h"

namespace linea {

struct RuleSpec {
  std::string name;      // of the setting `rule`
  std::string source{};  // the paper
  GateSpec gate{};
  // The last gate of a head, from 0 to 1, is what the state decays by, and 1 - g what a sum writes.
  bool decay_gate = false;
  // AttentionTraits (nn/attention.h)
  bool causal_only = false, packed_qkv = false, bf16_inputs = false, heads_differ = false;
  DeltaKind kind{};  // of rules without denominator
  // What all forms make of in.gate, with gradients; empty: no gates.
  std::function<RuleGates(const AttentionInputs& in, const Tensor& valid)> gates{};
};

class UpdateRule {
 public:
  explicit UpdateRule(RuleSpec spec) : spec_(std::move(spec)) {}
  virtual ~UpdateRule() = default;
  const RuleSpec& spec() const { return spec_; }

  // q, k [B,H,N,D], v [B,H,N,M], or qkv -> y [B,H,N,M], or [B,N,H D].
  virtual Var forward(const FeatureMapPtr& map, const AttentionInputs& in,
                      const LinearAttentionOptions& options) const = 0;
  // The state before the first position, and y of one more position, N = 1.
  virtual std::unique_ptr<AttentionState> start(const FeatureMap& map, int64_t B, int64_t H,
                                                int64_t D, int64_t M, DType dtype) const = 0;
  virtual Tensor step(const FeatureMap& map, AttentionState& state,
                      const AttentionInputs& in) const = 0;
  virtual AttentionFlops flops(int64_t features, int64_t values) const = 0;
  // Whether y is divided by the sum of its weights.
  virtual bool has_denominators() const = 0;

  // What the definitions take. Error: a mask that is not causal, where the rule is causal only.
  virtual naive::Inputs inputs(const FeatureMapPtr& map, const AttentionInputs& in,
                               const AttentionMask& mask) const;
  virtual Var quadratic(const naive::Inputs& in, const AttentionMask& mask) const = 0;

 protected:
  RuleGates gates(const AttentionInputs& in, const Tensor& valid) const {
    require(spec_.gates || !in.gate.defined(), "the rule {} takes no gates", spec_.name);
    return spec_.gates ? spec_.gates(in, valid) : RuleGates{};
  }

 private:
  RuleSpec spec_;
};

using RulePtr = std::shared_ptr<const UpdateRule>;

// The kinds of rules, by their gates: autograd/rules/sum.cpp takes log_decay and log_weight, delta.cpp,
// without denominator, beta and log_decay.
RulePtr make_sum_rule(RuleSpec spec);
RulePtr make_delta_rule(RuleSpec spec);

// The rules of autograd/rules/, and one by its name. Error: ErrorKind::usage naming those there are.
RulePtr sum_rule();
RulePtr gated_rule();
RulePtr delta_rule();
RulePtr gated_delta_rule();
RulePtr decay_rule();
const std::vector<RulePtr>& rules();
std::vector<std::string> rule_names();
RulePtr find_rule(const std::string& name);

// How the state decays at a position: not, by a number of the head, by a constant of the head, or by a
// number of each feature.
enum class Decay : uint8_t { none, head, fixed, channel };
struct DecayGates {
  Decay decay = Decay::none;
  int64_t features = 1;   // of a channel decay
  double beta_range = 1;  // beta is from 0 to this
  Var log_rate{};         // [H], log A; undefined: A = 1/16
};
// A rule without denominator with the gates of autograd/rules/decay.cpp in place of its own.
RuleSpec with_decay_gates(RuleSpec spec, const DecayGates& of);
// log a = -A softplus(s u) of u [B,H,...], A = rate exp(log_rate) of the head, log_rate [H] or
// undefined, s 1 or, where `negated`, -1.
Var log_decays(const Var& u, const Var& log_rate, double rate, bool negated);

// A gate g of each position and head, [B,H,N]. All functions are 0 in the padding.
struct Gate {
  Var x;  // as it is given, 0 in the padding
  GateForm form;
  Tensor valid;
  Var value() const;
  Var log() const;
  Var log_one_minus() const;
};
// The gates of in.gate [B,H,N,count] one by one. Error: another shape.
std::vector<Gate> each_gate(const AttentionInputs& in, int64_t count, const Tensor& valid);

}  // namespace linea

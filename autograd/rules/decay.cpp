// The rule of plain sums, and the gates of the rules without denominator (delta.cpp) that have no
// numbers from 0 to 1 but logs all the way:
//
//   S_t = a_t S_{t-1} + w_t phi(k_t) v_t^T    y_t = S_t^T phi(q_t)
//   log a_t = -A softplus(u_t)                w_t = softplus(u_t)
//
// u is what the layer projects from its input. -softplus(-u) is the log of the logistic function of u,
// so that a gate from 0 to 1 is the case of A = 1; here A is e to the power of a parameter of the
// head. a_t is a number of the head, or one of each feature (Diag(a_t) S_{t-1}); then w_t = 1 and
// log a = -softplus(-u) / 16, unless values are corrected. Or it is a constant of head h = 0, 1, ...,
// a = 1 - 2^{-5-h}, and w_t = 1. A rule that corrects has its beta first.
//
// Sources: Dao, Gu 2024, "Transformers are SSMs" (Mamba-2); Yang 2024, "Gated linear attention"; Sun
// 2023, "Retentive network"; Kimi team 2025, "Kimi Linear".
#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "autograd/qkv_layout.h"
#include "autograd/update_rule.h"
#include "tensor/launch.h"

namespace linea {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRateOfChannels = 1.0 / 16;  // without a parameter

// log a_h of every position, 0 in the padding.
Var fixed_decays(const AttentionInputs& in, const Tensor& valid) {
  const Shape positions = check_heads("decay", in, valid);  // B, H, N
  std::vector<double> logs(static_cast<size_t>(positions.numel()));
  for (int64_t row = 0; row < positions[0] * positions[1]; ++row)
    std::fill_n(logs.begin() + row * positions[2], positions[2],
                std::log1p(-std::exp2(-5.0 - static_cast<double>(row % positions[1]))));
  return clear_padding(Var(Tensor::from(logs, positions, in.q.dtype())), valid);
}

// What a rule makes of its gates.
struct DecayRule {
  DecayGates of;
  bool corrects;
  int64_t size, value_size;  // of in.gate as logits and as values

  bool weighs() const { return !corrects && of.decay == Decay::head; }

  RuleGates operator()(const AttentionInputs& in, const Tensor& valid) const {
    const Shape positions = check_heads("decay", in, valid);
    const bool logits = in.gate_form == GateForm::logit;
    RuleGates result;
    if (size > 0)
      ops::require_shape("attention", "gate", in.gate.value(),
                         {positions[0], positions[1], positions[2], logits ? size : value_size});
    const Var gate = size > 0 ? clear_padding(in.gate, valid) : Var();
    // One column has no axis of its own.
    const auto part = [&](int64_t first, int64_t count) {
      const Var some = columns(gate, first, count);
      return count == 1 ? reshape(some, positions) : some;
    };
    const auto apply = [&](Pointwise f, const Var& x) {
      return logits ? clear_padding(pointwise(f, x), valid) : x;
    };
    if (corrects) result.beta = apply(Pointwise::sigmoid, part(0, 1));
    if (corrects && logits && of.beta_range != 1) result.beta = scale(result.beta, of.beta_range);
    if (weighs()) result.beta = apply(Pointwise::softplus, part(0, 1));
    if (of.decay == Decay::fixed) result.log_decay = fixed_decays(in, valid);
    if (of.decay == Decay::head || of.decay == Decay::channel) {
      const int64_t count = of.decay == Decay::head ? 1 : of.features,
                    first = (logits ? size : value_size) - count;
      result.log_decay = part(first, count);
      if (logits)
        result.log_decay = clear_padding(
            of.log_rate.defined() ? log_decays(result.log_decay, of.log_rate, 1, false)
                                  : log_decays(result.log_decay, {}, kRateOfChannels, true),
            valid);
    }
    return result;
  }
};

}  // namespace

// dlog_rate: that of A, times A
Var log_decays(const Var& u, const Var& log_rate, double rate, bool negated) {
  const int64_t H = u.size(1), rows = u.size(0) * H;
  const DecayShape shape{rows, H, rows == 0 ? 0 : u.value().numel() / rows, rate, negated};
  if (log_rate.defined()) ops::require_shape("log_decays", "log_rate", log_rate.value(), {H});
  const Tensor y(u.shape(), u.dtype());
  LINEA_LAUNCH(log_decays, u.dtype(), shape, u.value(), ops::data_or_null(log_rate.value_or_none()),
               y);
  return Var::from_op(
      "log_decays", y, {u, log_rate},
      [shape, u = u.value(), log_rate = log_rate.value_or_none()](const Tensor& dy) -> Gradients {
        const Tensor du(u.shape(), u.dtype()),
            drate = log_rate.defined() ? Tensor(log_rate.shape(), u.dtype()) : Tensor();
        LINEA_LAUNCH(log_decays_backward, u.dtype(), shape, u, ops::data_or_null(log_rate), dy, du,
                     ops::data_or_null(drate));
        return {du, drate};
      });
}

RuleSpec with_decay_gates(RuleSpec spec, const DecayGates& of) {
  const int64_t decays = of.decay == Decay::head ? 1 : of.decay == Decay::channel ? of.features : 0;
  DecayRule rule{of, spec.kind.corrects, decays + (spec.kind.corrects ? 1 : 0), decays};
  spec.gate = {.name = "gates", .size = rule.size};
  if (rule.corrects) spec.gate.values.push_back({"beta", 1, 0, of.beta_range});
  if (rule.weighs()) spec.gate.values.push_back({"beta", 1, 0, kInfinity});
  if (decays > 0) spec.gate.values.push_back({"log_decay", decays, -kInfinity, 0});
  rule.value_size += rule.corrects || rule.weighs() ? 1 : 0;
  spec.decay_gate = false;
  spec.kind.sums_by_segment = true;
  spec.heads_differ = of.decay == Decay::fixed;
  spec.gates = rule;
  return spec;
}

RulePtr decay_rule() {
  return make_delta_rule(with_decay_gates(
      {.name = "decay", .source = "Sun 2023", .causal_only = true, .kind = {.corrects = false}},
      {.decay = Decay::fixed}));
}

}  // namespace linea

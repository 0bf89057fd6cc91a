// The sum rule:
//
//   S_t = a_t S_{t-1} + w_t phi(k_t) v_t^T    z_t = a_t z_{t-1} + w_t phi(k_t)
//   y_t = S_t^T phi(q_t) / z_t.phi(q_t)       a_t = 1; w_t = 1, or what the map weighs keys by
//
// State: S [F,M] and z [F]. Other rules of this kind have another a_t (log_decay) and w_t
// (log_weight). Source: Katharopoulos, Vyas, Pappas, Fleuret 2020, "Transformers are RNNs", eq. 4-5,
// 16-20.
#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "autograd/update_rule.h"

namespace linea {
namespace {

class SumRule final : public UpdateRule {
 public:
  using UpdateRule::UpdateRule;

  Var forward(const FeatureMapPtr& map, const AttentionInputs& in,
              const LinearAttentionOptions& options) const override {
    return linear_attention(map, in, gates(in, options.valid), options);
  }

  // With gates, which make a rule causal only, sums have scales.
  std::unique_ptr<AttentionState> start(const FeatureMap& map, int64_t B, int64_t H, int64_t D,
                                        int64_t M, DType dtype) const override {
    return std::make_unique<LinearState>(map, B, H, D, M, dtype, static_cast<bool>(spec().gates));
  }

  Tensor step(const FeatureMap& map, AttentionState& state,
              const AttentionInputs& in) const override {
    const NoGrad no_grad;
    return linear_step(map, dynamic_cast<LinearState&>(state), in, gates(in, {}));
  }

  // forward 4 F M: S += phi(k) v^T, S^T phi(q); backward 10 F M: S again, and the products for dq, dS,
  // dk, dv
  AttentionFlops flops(int64_t features, int64_t values) const override {
    const auto elements = static_cast<double>(features * values);
    return {4 * elements, 14 * elements};
  }

  bool has_denominators() const override { return true; }

  // y_i = sum_j A_ij v_j / sum_j A_ij,  A_ij = phi(q_i).phi(k_j) w_j a_{j+1} ... a_i  over the keys j
  // that i sees
  Var quadratic(const naive::Inputs& in, const AttentionMask& mask) const override {
    using namespace naive;
    const Var scores = in.logs ? log_scores(in.q, in.k) : matmul(in.q, in.k, false, true);
    Var log_weight(log_mask(scores.shape(), scores.dtype(), mask));
    if (in.gates.log_decay.defined())
      log_weight = add(log_weight, decays_between(in.gates.log_decay));
    if (in.gates.log_weight.defined())
      log_weight = add(log_weight, as_columns(in.gates.log_weight, in.q.size(2)));
    const Var weights = in.logs ? softmax(add(scores, log_weight))
                                : normalize(multiply(scores, exp_rows(log_weight)));
    return matmul(weights, in.v);
  }
};

}  // namespace

RulePtr make_sum_rule(RuleSpec spec) { return std::make_shared<SumRule>(std::move(spec)); }

RulePtr sum_rule() {
  return make_sum_rule(
      {.name = "sum", .source = "Katharopoulos 2020", .packed_qkv = true, .bf16_inputs = true});
}

}  // namespace linea

// The delta rule: a new value replaces what its key is bound to instead of being added to it.
//
//   S_t = a_t S_{t-1} + phi(k_t) x_t^T    x_t = beta_t (v_t - (a_t S_{t-1})^T phi(k_t))
//   y_t = S_t^T phi(q_t)                  a_t = 1
//
// phi(q) and phi(k) are divided by the sums of their components. State: S [F,M]. Gates: beta, the
// share of the difference that is written. Other rules of this kind have another a_t (log_decay),
// divide by other norms, or do not correct, x_t = beta_t v_t (DeltaKind); q is then multiplied by
// D^{-1/2}, except with sums.
// Sources: Schlag, Irie, Schmidhuber 2021, "Linear Transformers are secretly fast weight
// programmers", section 4.2; for chunks Yang 2024, "Parallelizing linear Transformers with the
// delta rule".
#include "autograd/delta_attention.h"
#include "autograd/ops.h"
#include "autograd/rotary.h"
#include "autograd/update_rule.h"

namespace linea {
namespace {

class DeltaRule final : public UpdateRule {
 public:
  using UpdateRule::UpdateRule;

  Var forward(const FeatureMapPtr& map, const AttentionInputs& in,
              const LinearAttentionOptions& options) const override {
    return delta_attention(map, spec().kind, in, gates(in, options.valid), options);
  }

  std::unique_ptr<AttentionState> start(const FeatureMap& map, int64_t B, int64_t H, int64_t D,
                                        int64_t M, DType dtype) const override {
    return std::make_unique<DeltaState>(Shape{B, H, map.features(D), M}, dtype);
  }

  Tensor step(const FeatureMap& map, AttentionState& state,
              const AttentionInputs& in) const override {
    const NoGrad no_grad;
    return delta_step(map, spec().kind, dynamic_cast<DeltaState&>(state), in, gates(in, {}));
  }

  // forward 6 F M: S^T phi(k), S += phi(k) x^T, S^T phi(q); backward 16 F M: S again (4), dq, dS
  // (twice), dk (twice), dv. Without correction 4 F M and 10 F M.
  AttentionFlops flops(int64_t features, int64_t values) const override {
    const auto elements = static_cast<double>(features * values);
    if (!spec().kind.corrects) return {4 * elements, 14 * elements};
    return {6 * elements, 22 * elements};
  }

  bool has_denominators() const override { return false; }

  // Features are values, divided by their norms. The weight of a key cancels. beta is 1 where there is
  // none.
  naive::Inputs inputs(const FeatureMapPtr& map, const AttentionInputs& in,
                       const AttentionMask& mask) const override {
    naive::Inputs result = UpdateRule::inputs(map, in, mask);
    const KeyNorm norm = spec().kind.norm;
    for (Var* rows : {&result.q, &result.k}) {
      if (norm == KeyNorm::sum) *rows = result.logs ? softmax(*rows) : normalize(*rows);
      if (norm == KeyNorm::unit) *rows = unit_rows(*rows, 1);
    }
    result.q = scale(result.q, query_scale(norm, in.q.size(-1)));
    if (spec().kind.rotary)
      for (Var* rows : {&result.q, &result.k}) *rows = rotated(*rows);
    result.logs = false;
    result.gates.log_weight = {};
    if (!result.gates.beta.defined()) {
      const Shape positions{in.q.size(0), in.q.size(1), in.q.size(2)};
      result.gates.beta = Var(Tensor::full(positions, in.q.dtype(), 1.0));
    }
    return result;
  }

  // Y = (D o Q K^T) X,  X = B (V - (the strict lower part of D o K K^T) X): a triangular system;
  // without correction X = B V.  D_ij = a_{j+1} ... a_i, 0 where i does not see j; decays of features
  // are in the products.
  Var quadratic(const naive::Inputs& in, const AttentionMask& mask) const override {
    using namespace naive;
    const Var& l = in.gates.log_decay;
    const int64_t N = in.q.size(2);
    Var D(log_mask({in.q.size(0), in.q.size(1), N, N}, in.q.dtype(), mask));
    const bool channels = l.defined() && l.shape().rank() == 4;
    if (l.defined() && !channels) D = add(D, decays_between(l));
    D = exp(D);
    const auto products = [&](const Var& x) {
      return channels ? channel_products(x, in.k, l) : matmul(x, in.k, false, true);
    };
    const Var& beta = in.gates.beta;
    Var X = multiply(as_rows(beta, in.v.size(3)), in.v);
    if (spec().kind.corrects)
      X = solve_unit_lower(multiply(multiply(as_rows(beta, N), products(in.k)), D), X);
    return matmul(multiply(products(in.q), D), X);
  }
};

}  // namespace

RulePtr make_delta_rule(RuleSpec spec) { return std::make_shared<DeltaRule>(std::move(spec)); }

RulePtr delta_rule() {
  return make_delta_rule({.name = "delta",
                          .source = "Schlag 2021",
                          .gate = {.name = "beta", .size = 1},
                          .causal_only = true,
                          .gates = [](const AttentionInputs& in, const Tensor& valid) {
                            return RuleGates{.beta = each_gate(in, 1, valid)[0].value()};
                          }});
}

}  // namespace linea

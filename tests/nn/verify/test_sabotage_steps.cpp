// Caught: steps that are not the forward, one position at a time.
#include "autograd/linear_attention.h"
#include "nn/attention.h"
#include "nn/feature_map.h"
#include "tensor/ops.h"
#include "tests/nn/verify/saboteur.h"

namespace linea::sabotage {
namespace {

// The step forgets the denominator: weights are not divided by their sum.
class NoDenominator final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return ops::scale(right_->step(state, in), 1.5);
  }
};

TEST(Sabotage, AStepThatDoesNotDivide) {
  expect_caught<NoDenominator>("step = outputs");
  expect_caught<NoDenominator>("step = outputs, float");
}

// The recurrent copy has its own features: here, uses another map.
class OtherFeatures final : public Saboteur {
 public:
  explicit OtherFeatures(const AttentionOptions& options)
      : Saboteur(options), other_(make_feature_map("relu", 1)) {}
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return linear_step(*other_, dynamic_cast<LinearState&>(state), in, {});
  }

 private:
  std::unique_ptr<FeatureMap> other_;
};

TEST(Sabotage, AStepWithDifferentFeatures) { expect_caught<OtherFeatures>("step = outputs"); }

// A step that leaves the state as it is where it should decay.
class GateForgotten final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return right_->step(
        state, {in.q, in.k, in.v, Var(Tensor::full(in.gate.shape(), in.gate.dtype(), 0.5))});
  }
};

TEST(Sabotage, AStepWithADifferentGate) {
  AttentionOptions gated;
  gated.settings["rule"] = "gated";
  expect_caught<GateForgotten>("step = outputs", gated);
}

TEST(Sabotage, OmegaRedrawnForSampling) {
  AttentionOptions performer;
  performer.name = "performer";
  performer.settings["features"] = 16;
  expect_break_caught("redraw", "step = outputs", performer);
  expect_break_caught("redraw", "step = outputs, float", performer);
}

}  // namespace
}  // namespace linea::sabotage

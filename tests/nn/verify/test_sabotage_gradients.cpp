// Caught: gradients of inputs, gates and parameters that are wrong or lose digits.
#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "autograd/update_rule.h"
#include "nn/attention.h"
#include "tensor/ops.h"
#include "tests/nn/verify/saboteur.h"

namespace linea::sabotage {
namespace {

TEST(Sabotage, AWrongDerivativeOfTheFeatureMap) {
  for (const char* name : {"gradients = differences", "gradients = quadratic", "gradients, float"})
    expect_break_caught("gradient", name);
}

class WrongGateGradient final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward({in.q, in.k, in.v, with_gradient_times(in.gate, 1.01)}, mask);
  }
};

TEST(Sabotage, AWrongGradientOfTheGates) {
  for (const char* rule : {"gated", "delta", "gated-delta"}) {
    AttentionOptions options;
    options.settings["rule"] = rule;
    expect_caught<WrongGateGradient>("gradients = quadratic", options);
    expect_caught<WrongGateGradient>("gradients = differences", options);
  }
}

// Gradients that lose digits in float, as long sums do where each term is added to all that came
// before.
class RoundedGradients final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double factor = in.q.dtype() == DType::f32 ? 1.001 : 1.0;
    return right_->forward(
        {with_gradient_times(in.q, factor), in.k, in.v, with_gradient_times(in.gate, factor)},
        mask);
  }
};

TEST(Sabotage, LongSumsThatLoseDigits) {
  AttentionOptions gated;
  gated.settings["rule"] = "gated";
  expect_caught<RoundedGradients>("gradients, long, float", gated, false);
  expect_caught<RoundedGradients>("gate, parameters, long, float", gated, false);
}

// log phi(x) = a x, a trained, whose gradient is multiplied by `percent` / 100.
template <int percent>
class TrainedMap : public Attention {
 public:
  class Stretched final : public FeatureMap {
   public:
    explicit Stretched(Var a) : a_(std::move(a)) {}
    int64_t features(int64_t key_size) const override { return key_size; }
    FeatureKind kind() const override { return FeatureKind::logs; }
    std::vector<Var> parameters() const override { return {a_}; }
    Features forward(const Tensor& x, Side, const HeadRange&) const override {
      return {ops::scale(x, a_.value().item()), {}, {}};
    }
    Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side,
                    const HeadRange&, const std::vector<Tensor>& gradients) const override {
      const Tensor all = ops::multiply(x, gradient.rows).reshape({x.numel(), 1});
      if (gradients[0].defined())
        ops::accumulate(ops::scale(ops::sum_rows(all, {1}), percent / 100.0), gradients[0]);
      return ops::scale(gradient.rows, a_.value().item());
    }

   private:
    Var a_;
  };
  explicit TrainedMap(const AttentionOptions& options)
      : Attention(options),
        a_(Tensor::full({1}, options.dtype, 0.75), true),
        map_(std::make_shared<Stretched>(a_)) {}
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_attention(map_, in, {},
                            {mask.causal, mask.valid, options_.segment, options_.chunk});
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return sum_rule()->quadratic(sum_rule()->inputs(map_, in, mask), mask);
  }
  AttentionFlops flops(int64_t length) const override { return (void)length, AttentionFlops{}; }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<LinearState>(*map_, batch, options_.heads, options_.key_size,
                                         options_.value_size, dtype, false);
  }
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return linear_step(*map_, dynamic_cast<LinearState&>(state), in, {});
  }
  Parameters parameters() const override { return {{"a", a_}}; }

 private:
  Var a_;
  std::shared_ptr<const FeatureMap> map_;
};

TEST(Sabotage, AWrongGradientOfAParameter) {
  expect_caught<TrainedMap<101>, TrainedMap<100>>("gradients = differences");
}

}  // namespace
}  // namespace linea::sabotage

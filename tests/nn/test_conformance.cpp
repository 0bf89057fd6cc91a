// Every registered attention passes the conformance checks; and each check catches the defect it is for, one
// that is known from other implementations wherever there is such.
#include "nn/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "autograd/ops.h"
#include "nn/engine.h"
#include "nn/quadratic.h"
#include "tensor/ops.h"

namespace linea {
namespace {

std::vector<AttentionOptions> all_variants() {
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : attentions())
    result.insert(result.end(), entry.variants.begin(), entry.variants.end());
  return result;
}

std::string letters_of(const testing::TestParamInfo<AttentionOptions>& info) {
  std::string name = label_of(info.param);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Conformance : public testing::TestWithParam<AttentionOptions> {};

TEST_P(Conformance, EveryCheckPasses) {
  const std::vector<Check> checks = check_attention(GetParam(), {});
  EXPECT_EQ(checks.size(), 22u);
  for (const Check& check : checks)
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " > " << check.bound << " at "
                              << check.detail;
}

INSTANTIATE_TEST_SUITE_P(Attentions, Conformance, testing::ValuesIn(all_variants()), letters_of);

TEST(Registry, HoldsWhatTheProgramOffers) {
  std::vector<std::string> labels;
  for (const AttentionOptions& variant : all_variants()) labels.push_back(label_of(variant));
  for (const char* label :
       {"linear --feature elu", "linear --feature relu", "linear --feature exp", "linear --feature square",
        "linear --feature dpfp --nu 2", "linear --feature elu --rule gated", "linear --feature elu --rule delta",
        "performer --feature positive --features 16", "performer --feature hyperbolic --features 16",
        "performer --feature trig --features 16", "performer --feature relu --features 16", "soft-vq --codes 16",
        "vq --codes 16", "softmax"})
    EXPECT_NE(std::find(labels.begin(), labels.end(), label), labels.end()) << label;
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsTheNames) {
  AttentionOptions options;
  options.attention = "nonesuch";
  try {
    make_attention(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("nonesuch"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("linear, performer, soft-vq, softmax, vq"), std::string::npos)
        << error.what();
  }
}

// A right attention whose methods the saboteurs below replace one at a time.
class Saboteur : public Attention {
 public:
  explicit Saboteur(const AttentionOptions& options) : right_(make_attention(options)) {}
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward(in, mask);
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->quadratic(in, mask);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return right_->start(batch, dtype);
  }
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return right_->step(state, in);
  }
  bool gated() const override { return right_->gated(); }
  bool straight_through() const override { return right_->straight_through(); }
  bool causal_only() const override { return right_->causal_only(); }
  Parameters parameters() const override { return right_->parameters(); }

 protected:
  std::unique_ptr<Attention> right_;
};

template <typename Wrong>
Check check_of(const std::string& name, const AttentionOptions& variant = {}, bool quick = true) {
  const AttentionFactory make = [](const AttentionOptions& options) {
    return std::make_unique<Wrong>(options);
  };
  const std::vector<Check> checks = check_attention(make, variant, {quick, name});
  for (const Check& check : checks)
    if (check.name == name) return check;
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

// Expects that `Right` passes and `Wrong` fails the check `name`.
template <typename Wrong, typename Right = Saboteur>
void expect_caught(const std::string& name, const AttentionOptions& variant = {}, bool quick = true) {
  const Check right = check_of<Right>(name, variant, quick), wrong = check_of<Wrong>(name, variant, quick);
  EXPECT_TRUE(right.passed) << name << ": " << right.measured << " at " << right.detail;
  EXPECT_FALSE(wrong.passed) << name << ": " << wrong.measured;
}

AttentionOptions with_feature(const std::string& feature) {
  AttentionOptions options;
  options.feature = feature;
  return options;
}

// The derivative of the feature map is 1% too large, in every form: only finite differences can tell.
class WrongSlope final : public Saboteur {
 public:
  class Steeper final : public FeatureMap {
   public:
    int64_t features(int64_t key_size) const override { return key_size; }
    Features forward(const Tensor& x, Side, const PairRange&) const override {
      return {ops::pointwise(Pointwise::feature_elu, x), {}, {}};
    }
    Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side, const PairRange&,
                    const std::vector<Tensor>&) const override {
      return ops::scale(ops::pointwise_backward(Pointwise::feature_elu, x, gradient.rows), 1.01);
    }
  };
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_attention(map_, in, {mask.causal, mask.valid, 0, 0});
  }

 private:
  std::shared_ptr<const FeatureMap> map_ = std::make_shared<Steeper>();
};

TEST(Sabotage, AWrongDerivativeOfTheFeatureMap) {
  expect_caught<WrongSlope>("gradients = differences");
  expect_caught<WrongSlope>("gradients = quadratic");
  expect_caught<WrongSlope>("gradients, float");
}

// Keys are stabilised by the largest of the whole sequence: the future shows in the past.
class LeakyStabiliser final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const std::vector<double> keys = in.k.value().to_doubles();
    const double largest = *std::max_element(keys.begin(), keys.end());
    const Tensor shift = Tensor::full(in.k.shape(), in.k.dtype(), -largest);
    return right_->forward({in.q, add(in.k, Var(shift)), in.v, in.gate}, mask);
  }
};

TEST(Sabotage, AKeyStabiliserOverTheWholeSequence) {
  expect_caught<LeakyStabiliser>("causality: bits", with_feature("exp"));
}

// Causal is asked for, and not done.
class SeesAll final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward(in, {false, mask.valid});
  }
};

TEST(Sabotage, TheFutureIsSeen) {
  expect_caught<SeesAll>("causality: bits");
  expect_caught<SeesAll>("causality: gradients");
  expect_caught<SeesAll>("outputs = quadratic");
  expect_caught<SeesAll>("outputs, float");
  expect_caught<SeesAll>("step = outputs");
}

// The step forgets the denominator: weights are not divided by their sum.
class NoDenominator final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return ops::scale(right_->step(state, in), 1.5);
  }
};

// The recurrent copy has drawn its own features: here, uses another map.
class OtherFeatures final : public Saboteur {
 public:
  explicit OtherFeatures(const AttentionOptions& options)
      : Saboteur(options), other_(make_feature_map("relu", 1)) {}
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return linear_step(*other_, dynamic_cast<LinearState&>(state), in);
  }

 private:
  std::unique_ptr<FeatureMap> other_;
};

TEST(Sabotage, AStepThatDoesNotDivide) {
  expect_caught<NoDenominator>("step = outputs");
  expect_caught<NoDenominator>("step = outputs, float");
}

TEST(Sabotage, AStepWithFeaturesOfItsOwn) { expect_caught<OtherFeatures>("step = outputs"); }

// A state that keeps every key.
class GrowingState final : public Saboteur {
 public:
  explicit GrowingState(const AttentionOptions& options) : Saboteur(options) {
    AttentionOptions softmax = options;
    softmax.attention = "softmax";
    right_ = make_attention(softmax);
  }
};

TEST(Sabotage, AStateThatGrows) { expect_caught<GrowingState>("state growth, keys a position"); }

// Padded keys stay in the denominator: their values are taken out, their weights are not.
class PaddingInDenominator final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    if (!mask.valid.defined()) return right_->forward(in, mask);
    const std::vector<int32_t> valid = mask.valid.to_vector<int32_t>();
    std::vector<double> kept(static_cast<size_t>(in.v.value().numel()), 1.0);
    const int64_t row = in.v.size(3), sequence = in.v.size(1) * in.v.size(2) * row;
    for (int64_t i = 0; i < in.v.value().numel(); ++i)
      if (i / row % in.v.size(2) >= valid[static_cast<size_t>(i / sequence)]) kept[static_cast<size_t>(i)] = 0;
    Tensor selected = Tensor::from(kept, in.v.shape());
    if (in.v.dtype() == DType::f32)
      selected = Tensor::from(std::vector<float>(kept.begin(), kept.end()), in.v.shape());
    return right_->forward({in.q, in.k, multiply(in.v, Var(selected)), in.gate}, {mask.causal, {}});
  }
};

TEST(Sabotage, PaddedKeysInTheDenominator) {
  for (const char* name : {"padding = quadratic", "padding = cut", "padding: bits", "padding: gradients"})
    expect_caught<PaddingInDenominator>(name);
}

// Sequences share a stabiliser, and an epsilon under the denominator makes it show.
class SharedAcrossSequences final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const std::vector<double> keys = in.k.value().to_doubles();
    const double largest = *std::max_element(keys.begin(), keys.end());
    return scale(right_->forward(in, mask), 1.0 - 1e-6 * std::exp(-largest));
  }
};

TEST(Sabotage, SequencesThatShareANumber) {
  // two of three sequences keep the largest key, one of them alone does not
  expect_caught<SharedAcrossSequences>("other sequences");
}

// Another answer every time, by one unit in the last place.
class NotRepeatable final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    ++calls_;
    return scale(right_->forward(in, mask), calls_ % 2 == 0 ? 1.0 : 1.0 + 2e-7);
  }

 private:
  mutable int calls_ = 0;
};

TEST(Sabotage, AnotherAnswerEveryRun) { expect_caught<NotRepeatable>("two runs: bits"); }

// exp of scores without taking the largest out first.
class Overflowing final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
    const Var weights = exponential(scale(matmul(in.q, in.k, false, true), 1.0 / root));
    return matmul(normalize(hide_unseen(weights, mask, 0.0)), in.v);
  }

 private:
  static Var exponential(const Var& x) {
    Tensor y(x.shape(), x.dtype());
    with_real(x.dtype(), "exponential", [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < x.value().numel(); ++i) y.data<T>()[i] = exp_of(x.value().data<T>()[i]);
    });
    return Var::made_by("exponential", y, {x},
                        [y](const Tensor& dy) -> std::vector<Gradient> { return {ops::multiply(y, dy)}; });
  }
};

TEST(Sabotage, ExpOfLargeScores) {
  AttentionOptions softmax;
  softmax.attention = "softmax";
  expect_caught<Overflowing>("large inputs, float", softmax);
  expect_caught<Overflowing>("large inputs: not finite", softmax);
}

// N x N scores, kept for the backward.
class QuadraticMemory final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->quadratic(in, mask);
  }
};

// N x F features, kept for the backward.
class KeptFeatures final : public Saboteur {
 public:
  explicit KeptFeatures(const AttentionOptions& options)
      : Saboteur(options), map_(make_feature_map("elu", 1)) {}
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Var y = right_->forward(in, mask);
    const int64_t pairs = in.k.size(0) * in.k.size(1);
    const Tensor keys = in.k.value().reshape({pairs, in.k.size(2), in.k.size(3)});
    const Tensor features = map_->forward(keys, Side::key, {0, in.k.size(1)}).rows;
    return Var::made_by("kept", ops::scale(y.value(), 1.0), {y},
                        [features](const Tensor& dy) -> std::vector<Gradient> { return {dy}; });
  }

 private:
  std::unique_ptr<FeatureMap> map_;
};

TEST(Sabotage, MemoryThatIsNotConstant) {
  expect_caught<QuadraticMemory>("memory, scalars a position");
  expect_caught<KeptFeatures>("memory, scalars a position");
}

// Keys are given as values, relative to the largest log of all the rows that came together, and that as their
// weight: right by the formula, but what comes later decides what underflows.
class ScaledByTheSequence final : public Saboteur {
 public:
  class Relative final : public FeatureMap {
   public:
    int64_t features(int64_t key_size) const override { return key_size; }
    bool weighs_keys() const override { return true; }
    Features forward(const Tensor& x, Side, const PairRange&) const override {
      std::vector<double> values = x.to_doubles();
      const double largest = values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
      for (double& value : values) value = std::exp(value - largest);
      const Tensor rows(x.shape(), x.dtype());
      write_values(values, rows);
      return {rows, Tensor::full({x.size(0), x.size(1)}, x.dtype(), largest), {}};
    }
    Tensor backward(const Tensor&, const Features& made, const Features& gradient, Side, const PairRange&,
                    const std::vector<Tensor>&) const override {
      return ops::multiply(made.rows, gradient.rows);
    }
  };
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_attention(map_, in, {mask.causal, mask.valid, 0, 0});
  }

 private:
  std::shared_ptr<const FeatureMap> map_ = std::make_shared<Relative>();
};

TEST(Sabotage, KeysScaledByTheWholeSequence) {
  expect_caught<ScaledByTheSequence>("causality: bits", with_feature("exp"));
}

Var with_gradient_times(const Var& x, double factor) {
  return Var::made_by("wrong", ops::scale(x.value(), 1.0), {x},
                      [factor](const Tensor& dy) -> std::vector<Gradient> { return {ops::scale(dy, factor)}; });
}

class WrongGateGradient final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward({in.q, in.k, in.v, with_gradient_times(in.gate, 1.01)}, mask);
  }
};

TEST(Sabotage, AWrongGradientOfTheGates) {
  for (const char* rule : {"gated", "delta"}) {
    AttentionOptions options;
    options.rule = rule;
    expect_caught<WrongGateGradient>("gradients = quadratic", options);
    expect_caught<WrongGateGradient>("gradients = differences", options);
  }
}

// Gradients that lose digits in float, as long sums do where each term is added to all that came before.
class RoundedGradients final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double factor = in.q.dtype() == DType::f32 ? 1.001 : 1.0;
    return right_->forward({with_gradient_times(in.q, factor), in.k, in.v, with_gradient_times(in.gate, factor)},
                           mask);
  }
};

TEST(Sabotage, LongSumsThatLoseDigits) {
  AttentionOptions gated;
  gated.rule = "gated";
  expect_caught<RoundedGradients>("gradients, long, float", gated, false);
  expect_caught<RoundedGradients>("gate, parameters, long, float", gated, false);
}

// A step that leaves the state as it is where it should decay.
class GateForgotten final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return right_->step(state, {in.q, in.k, in.v, Tensor::full(in.gate.shape(), in.gate.dtype(), 0.5)});
  }
};

TEST(Sabotage, AStepWithAnotherGate) {
  AttentionOptions gated;
  gated.rule = "gated";
  expect_caught<GateForgotten>("step = outputs", gated);
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
    Features forward(const Tensor& x, Side, const PairRange&) const override {
      return {ops::scale(x, a_.value().item()), {}, {}};
    }
    Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side, const PairRange&,
                    const std::vector<Tensor>& gradients) const override {
      const Tensor all = ops::multiply(x, gradient.rows).reshape({x.numel(), 1});
      if (gradients[0].defined())
        ops::accumulate(ops::scale(ops::sum_rows(all, {1}), percent / 100.0), gradients[0]);
      return ops::scale(gradient.rows, a_.value().item());
    }

   private:
    Var a_;
  };
  explicit TrainedMap(const AttentionOptions& options)
      : options_(options),
        a_(Tensor::full({1}, options.dtype, 0.75), true),
        map_(std::make_shared<Stretched>(a_)) {}
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_attention(map_, in, {mask.causal, mask.valid, options_.segment, options_.chunk});
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_quadratic(map_, in, mask);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return start_linear(*map_, options_, batch, dtype, false);
  }
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return linear_step(*map_, dynamic_cast<LinearState&>(state), in);
  }
  Parameters parameters() const override { return {{"a", a_}}; }

 private:
  AttentionOptions options_;
  Var a_;
  std::shared_ptr<const FeatureMap> map_;
};

TEST(Sabotage, AWrongGradientOfAParameter) {
  expect_caught<TrainedMap<101>, TrainedMap<100>>("gradients = differences");
}

// omega is drawn again between training and sampling.
class RedrawnForSteps final : public Saboteur {
 public:
  explicit RedrawnForSteps(const AttentionOptions& options) : Saboteur(options) {
    AttentionOptions redrawn = options;
    redrawn.redraw = 1;
    right_ = make_attention(redrawn);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    right_->before_step(1, 2);
    return right_->start(batch, dtype);
  }
};

TEST(Sabotage, OmegaDrawnAgainForSampling) {
  AttentionOptions performer;
  performer.attention = "performer";
  performer.features = 16;
  expect_caught<RedrawnForSteps>("step = outputs", performer);
  expect_caught<RedrawnForSteps>("step = outputs, float", performer);
}

// What throws has failed, with its own words.
class Throwing final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs&, const AttentionMask&) const override { fail(ErrorKind::usage, "not today"); }
};

TEST(Sabotage, AnErrorIsAFailedCheck) {
  const Check check = check_of<Throwing>("outputs = quadratic");
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.detail, "not today");
}

}  // namespace
}  // namespace linea

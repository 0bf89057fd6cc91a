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
  EXPECT_EQ(checks.size(), 20u);
  for (const Check& check : checks)
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " > " << check.bound << " at "
                              << check.detail;
}

INSTANTIATE_TEST_SUITE_P(Attentions, Conformance, testing::ValuesIn(all_variants()), letters_of);

TEST(Registry, HoldsWhatTheProgramOffers) {
  std::vector<std::string> labels;
  for (const AttentionOptions& variant : all_variants()) labels.push_back(label_of(variant));
  for (const char* label : {"linear --feature elu", "linear --feature relu", "linear --feature exp",
                            "linear --feature square", "linear --feature dpfp --nu 2", "softmax"})
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
    EXPECT_NE(std::string(error.what()).find("linear, softmax"), std::string::npos) << error.what();
  }
}

// A right attention whose methods the saboteurs below replace one at a time.
class Saboteur : public Attention {
 public:
  explicit Saboteur(const AttentionOptions& options) : right_(make_attention(options)) {}
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    return right_->forward(q, k, v, mask);
  }
  Var quadratic(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    return right_->quadratic(q, k, v, mask);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return right_->start(batch, dtype);
  }
  Tensor step(AttentionState& state, const Tensor& q, const Tensor& k, const Tensor& v) const override {
    return right_->step(state, q, k, v);
  }

 protected:
  std::unique_ptr<Attention> right_;
};

template <typename Wrong>
Check check_of(const std::string& name, AttentionOptions variant = {}) {
  const AttentionFactory make = [](const AttentionOptions& options) {
    return std::make_unique<Wrong>(options);
  };
  const std::vector<Check> checks = check_attention(make, variant, {true, name});
  for (const Check& check : checks)
    if (check.name == name) return check;
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

// Expects that `Right` passes and `Wrong` fails the check `name`.
template <typename Wrong>
void expect_caught(const std::string& name, const AttentionOptions& variant = {}) {
  const Check right = check_of<Saboteur>(name, variant), wrong = check_of<Wrong>(name, variant);
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
  class Features final : public FeatureMap {
   public:
    int64_t features(int64_t key_size) const override { return key_size; }
    Tensor forward(const Tensor& x) const override { return ops::pointwise(Pointwise::feature_elu, x); }
    Tensor backward(const Tensor& x, const Tensor& dphi) const override {
      return ops::scale(ops::pointwise_backward(Pointwise::feature_elu, x, dphi), 1.01);
    }
  };
  using Saboteur::Saboteur;
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    return linear_attention(map_, q, k, v, {mask.causal, mask.valid});
  }

 private:
  Features map_;
};

TEST(Sabotage, AWrongDerivativeOfTheFeatureMap) {
  expect_caught<WrongSlope>("gradients = differences");
  expect_caught<WrongSlope>("gradients = quadratic");
}

// Keys are stabilised by the largest of the whole sequence: the future shows in the past.
class LeakyStabiliser final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    const std::vector<double> keys = k.value().to_doubles();
    const double largest = *std::max_element(keys.begin(), keys.end());
    const Tensor shift = Tensor::full(k.shape(), k.dtype(), -largest);
    return right_->forward(q, add(k, Var(shift)), v, mask);
  }
};

TEST(Sabotage, AKeyStabiliserOverTheWholeSequence) {
  expect_caught<LeakyStabiliser>("causality: bits", with_feature("exp"));
}

// Causal is asked for, and not done.
class SeesAll final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    return right_->forward(q, k, v, {false, mask.valid});
  }
};

TEST(Sabotage, TheFutureIsSeen) {
  expect_caught<SeesAll>("causality: bits");
  expect_caught<SeesAll>("causality: gradients");
  expect_caught<SeesAll>("outputs = quadratic");
  expect_caught<SeesAll>("step = outputs");
}

// The step forgets the denominator: weights are not divided by their sum.
class NoDenominator final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Tensor step(AttentionState& state, const Tensor& q, const Tensor& k, const Tensor& v) const override {
    return ops::scale(right_->step(state, q, k, v), 1.5);
  }
};

// The recurrent copy has drawn its own features: here, uses another map.
class OtherFeatures final : public Saboteur {
 public:
  explicit OtherFeatures(const AttentionOptions& options)
      : Saboteur(options), other_(make_feature_map("relu", 1)), options_(options) {}
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<State>(
        start_linear(batch, options_.heads, options_.key_size, options_.value_size, dtype));
  }
  Tensor step(AttentionState& state, const Tensor& q, const Tensor& k, const Tensor& v) const override {
    return linear_step(*other_, dynamic_cast<State&>(state).linear, q, k, v);
  }

 private:
  struct State final : AttentionState {
    explicit State(LinearState state) : linear(std::move(state)) {}
    size_t bytes() const override { return linear.state.bytes(); }
    LinearState linear;
  };
  std::unique_ptr<FeatureMap> other_;
  AttentionOptions options_;
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
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    if (!mask.valid.defined()) return right_->forward(q, k, v, mask);
    const std::vector<int32_t> valid = mask.valid.to_vector<int32_t>();
    std::vector<double> kept(static_cast<size_t>(v.value().numel()), 1.0);
    const int64_t row = v.size(3), sequence = v.size(1) * v.size(2) * row;
    for (int64_t i = 0; i < v.value().numel(); ++i)
      if (i / row % v.size(2) >= valid[static_cast<size_t>(i / sequence)]) kept[static_cast<size_t>(i)] = 0;
    Tensor selected = Tensor::from(kept, v.shape());
    if (v.dtype() == DType::f32)
      selected = Tensor::from(std::vector<float>(kept.begin(), kept.end()), v.shape());
    return right_->forward(q, k, multiply(v, Var(selected)), {mask.causal, {}});
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
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    const std::vector<double> keys = k.value().to_doubles();
    const double largest = *std::max_element(keys.begin(), keys.end());
    return scale(right_->forward(q, k, v, mask), 1.0 - 1e-6 * std::exp(-largest));
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
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    ++calls_;
    return scale(right_->forward(q, k, v, mask), calls_ % 2 == 0 ? 1.0 : 1.0 + 2e-7);
  }

 private:
  mutable int calls_ = 0;
};

TEST(Sabotage, AnotherAnswerEveryRun) { expect_caught<NotRepeatable>("two runs: bits"); }

// exp of scores without taking the largest out first.
class Overflowing final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    const double root = std::sqrt(static_cast<double>(q.size(-1)));
    const Var weights = pointwise(Pointwise::feature_exp, scale(matmul(q, k, false, true), 1.0 / root));
    return matmul(normalize(hide_unseen(weights, mask, 0.0)), v);
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
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    return right_->quadratic(q, k, v, mask);
  }
};

// N x F features, kept for the backward.
class KeptFeatures final : public Saboteur {
 public:
  explicit KeptFeatures(const AttentionOptions& options)
      : Saboteur(options), map_(make_feature_map("elu", 1)) {}
  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    const Var y = right_->forward(q, k, v, mask);
    const Tensor features = map_->forward(k.value());
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

// What throws has failed, with its own words.
class Throwing final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const Var&, const Var&, const Var&, const AttentionMask&) const override {
    fail(ErrorKind::usage, "not today");
  }
};

TEST(Sabotage, AnErrorIsAFailedCheck) {
  const Check check = check_of<Throwing>("outputs = quadratic");
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.detail, "not today");
}

}  // namespace
}  // namespace linea

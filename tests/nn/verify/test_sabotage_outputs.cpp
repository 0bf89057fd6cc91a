// Caught: outputs that depend on what they must not see (the future, padding, other sequences, the
// run before), that overflow, and a forward that throws.
#include <algorithm>
#include <cmath>

#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "nn/attention.h"
#include "tensor/ops.h"
#include "tests/nn/verify/saboteur.h"

namespace linea::sabotage {
namespace {

TEST(Sabotage, AKeyStabiliserOverTheWholeSequence) {
  expect_break_caught("stabilizer", "causality: bits", with_feature("exp"));
}

// Keys are given as values, relative to the largest log of all the rows that came together, and
// that as their weight: right by the formula, but what comes later decides what underflows.
class ScaledByTheSequence final : public Saboteur {
 public:
  class Relative final : public FeatureMap {
   public:
    int64_t features(int64_t key_size) const override { return key_size; }
    bool weighs_keys() const override { return true; }
    Features forward(const Tensor& x, Side, const HeadRange&) const override {
      std::vector<double> values = x.to_doubles();
      const double largest = values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
      for (double& value : values) value = std::exp(value - largest);
      const Tensor rows(x.shape(), x.dtype());
      write_values(values, rows);
      return {rows, Tensor::full({x.size(0), x.size(1)}, x.dtype(), largest), {}};
    }
    Tensor backward(const Tensor&, const Features& made, const Features& gradient, Side,
                    const HeadRange&, const std::vector<Tensor>&) const override {
      return ops::multiply(made.rows, gradient.rows);
    }
  };
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_attention(map_, in, {}, {mask.causal, mask.valid, 0, 0});
  }

 private:
  std::shared_ptr<const FeatureMap> map_ = std::make_shared<Relative>();
};

TEST(Sabotage, KeysScaledByTheWholeSequence) {
  expect_caught<ScaledByTheSequence>("causality: bits", with_feature("exp"));
}

TEST(Sabotage, ALeakFromTheFuture) {
  for (const char* name : {"causality: bits", "causality: gradients", "outputs = quadratic",
                           "outputs, float", "step = outputs"})
    expect_break_caught("future", name);
}

TEST(Sabotage, PaddedKeysInTheDenominator) {
  for (const char* name :
       {"padding = quadratic", "padding = cut", "padding: bits", "padding: gradients"})
    expect_break_caught("padding", name);
}

// Sequences share a stabilizer, and an epsilon under the denominator makes it show.
class SharedAcrossSequences final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const std::vector<double> keys = in.k.value().to_doubles();
    const double largest = *std::max_element(keys.begin(), keys.end());
    return scale(right_->forward(in, mask), 1.0 - 1e-6 * std::exp(-largest));
  }
};

TEST(Sabotage, SequencesThatShareAValue) {
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

TEST(Sabotage, DifferentResultsEachRun) { expect_caught<NotRepeatable>("two runs: bits"); }

TEST(Sabotage, ExpOfLargeScores) {
  AttentionOptions softmax;
  softmax.name = "softmax";
  expect_break_caught("overflow", "large inputs, float", softmax);
  expect_break_caught("overflow", "large inputs: not finite", softmax);
}

// What throws has failed, with its own words.
class Throwing final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs&, const AttentionMask&) const override {
    fail(ErrorKind::usage, "not today");
  }
};

TEST(Sabotage, AnExceptionFailsTheCheck) {
  const Check check = check_of(make<Throwing>, "outputs = quadratic");
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.detail, "not today");
}

}  // namespace
}  // namespace linea::sabotage

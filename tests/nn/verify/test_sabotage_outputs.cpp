// Caught: outputs that depend on what they must not see (the future, padding, other sequences, the
// run before), that overflow, and a forward that throws.
#include <algorithm>
#include <cmath>

#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention.h"
#include "tensor/ops.h"
#include "tests/nn/verify/saboteur.h"

namespace linea::sabotage {
namespace {

// Keys are stabilized by the largest of the whole sequence: the future shows in the past.
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

// Causal is asked for, and not done.
class SeesAll final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward(in, {false, mask.valid});
  }
};

TEST(Sabotage, ALeakFromTheFuture) {
  expect_caught<SeesAll>("causality: bits");
  expect_caught<SeesAll>("causality: gradients");
  expect_caught<SeesAll>("outputs = quadratic");
  expect_caught<SeesAll>("outputs, float");
  expect_caught<SeesAll>("step = outputs");
}

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
      if (i / row % in.v.size(2) >= valid[static_cast<size_t>(i / sequence)])
        kept[static_cast<size_t>(i)] = 0;
    Tensor selected = Tensor::from(kept, in.v.shape());
    if (in.v.dtype() == DType::f32)
      selected = Tensor::from(std::vector<float>(kept.begin(), kept.end()), in.v.shape());
    return right_->forward({in.q, in.k, multiply(in.v, Var(selected)), in.gate}, {mask.causal, {}});
  }
};

TEST(Sabotage, PaddedKeysInTheDenominator) {
  for (const char* name :
       {"padding = quadratic", "padding = cut", "padding: bits", "padding: gradients"})
    expect_caught<PaddingInDenominator>(name);
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

// exp of scores without taking the largest out first.
class Overflowing final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
    const Var scores = scale(matmul(in.q, in.k, false, true), 1.0 / root);
    const Var visible(naive::log_mask(scores.shape(), scores.dtype(), mask));
    return matmul(normalize(exp(add(scores, visible))), in.v);
  }
};

TEST(Sabotage, ExpOfLargeScores) {
  AttentionOptions softmax;
  softmax.name = "softmax";
  expect_caught<Overflowing>("large inputs, float", softmax);
  expect_caught<Overflowing>("large inputs: not finite", softmax);
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
  const Check check = check_of<Throwing>("outputs = quadratic");
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.detail, "not today");
}

}  // namespace
}  // namespace linea::sabotage

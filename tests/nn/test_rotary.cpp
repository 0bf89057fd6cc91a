// Rotary positions: rows are turned by the formula, products depend on distances alone, and models sample
// what their parallel form gives.
#include "autograd/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/verify/conformance.h"
#include "tests/expect_error.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

TEST(Rotary, TurnsPairsByTheirAngle) {
  const int64_t N = 5, D = 6;
  const std::vector<double> x = random_tensor({1, 1, N, D}, 1).to_doubles(),
                            y = rotated(Var(Tensor::from(x, {1, 1, N, D}))).value().to_doubles();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t d = 0; d < D / 2; ++d) {
      const double angle = static_cast<double>(n) * std::pow(10000.0, -static_cast<double>(d) / 3);
      const auto one = static_cast<size_t>(n * D + d), two = one + 3;
      EXPECT_NEAR(y[one], x[one] * std::cos(angle) - x[two] * std::sin(angle), 1e-14);
      EXPECT_NEAR(y[two], x[two] * std::cos(angle) + x[one] * std::sin(angle), 1e-14);
    }
}

TEST(Rotary, KeepsTheLastNumberOfAnOddWidth) {
  const std::vector<double> x = random_tensor({1, 1, 3, 5}, 1).to_doubles(),
                            y = rotated(Var(Tensor::from(x, {1, 1, 3, 5}))).value().to_doubles();
  for (const size_t last : {4, 9, 14}) EXPECT_EQ(y[last], x[last]);
  EXPECT_NEAR(y[6],
              x[6] * std::cos(std::pow(10000.0, -0.4)) - x[8] * std::sin(std::pow(10000.0, -0.4)),
              1e-14);
}

// The product of turned rows i and j is that of i + 7 and j + 7.
TEST(Rotary, ProductsDependOnTheDistance) {
  const Tensor x = random_tensor({1, 1, 1, 8}, 1);
  std::vector<double> same;
  for (int i = 0; i < 20; ++i)
    for (const double value : x.to_doubles()) same.push_back(value);
  const Var y = rotated(Var(Tensor::from(same, {1, 1, 20, 8})));
  const std::vector<double> products = matmul(y, y, false, true).value().to_doubles();
  for (size_t i = 0; i < 13; ++i)
    for (size_t j = 0; j < 13; ++j)
      EXPECT_NEAR(products[i * 20 + j], products[(i + 7) * 20 + j + 7], 1e-12);
  EXPECT_GT(std::abs(products[0] - products[1]), 1e-3);
}

TEST(Rotary, PassesGradcheck) {
  const auto check = [](const Function& f, const Tensor& x) {
    const GradcheckResult result = gradcheck(f, {x});
    EXPECT_LE(result.error, 1e-7);
  };
  for (const int64_t width : {4, 5})
    check([](const std::vector<Var>& in) { return rotated(in[0]); },
          random_tensor({2, 2, 5, width}, 1));
  check([](const std::vector<Var>& in) { return rotated_qk(in[0], 2, 3); },
        random_tensor({2, 5, 3 * 2 * 4}, 2));
}

TEST(Rotary, LeavesValues) {
  const Tensor qkv = random_tensor({1, 4, 3 * 2 * 4}, 1);
  const std::vector<double> before = qkv.to_doubles(),
                            after = rotated_qk(Var(qkv), 2, 1).value().to_doubles();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] == after[i], i % 24 >= 16) << i;
  // Later rows continue where earlier ones end.
  const std::vector<double> rest =
      rotated_qk(Var(qkv.reshape({4, 1, 24}).rows(2, 1)), 2, 3).value().to_doubles();
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i], after[48 + i], 1e-14);
}

// Rules without denominator turn their features, in every form.
TEST(Rotary, ConformanceOfTurnedFeatures) {
  if (kSanitized) GTEST_SKIP() << "too slow here; the release build's tests do it";
  for (const AttentionOptions& variant :
       std::vector<AttentionOptions>{{"gdn"},
                                     {"kda"},
                                     {"ssd"},
                                     {"retnet"},
                                     {"gla"},
                                     {"linear", {{"rule", "delta"}, {"feature", "dpfp"}}},
                                     {"linear", {{"rule", "gated-delta"}, {"feature", "exp"}}}}) {
    const AttentionFactory make = [](AttentionOptions options) {
      options.rotary = true;
      return make_attention(options);
    };
    for (const char* name : {"outputs = quadratic", "gradients", "step", "causality", "padding"})
      for (const Check& check : check_attention(variant, {true, name, make}))
        EXPECT_TRUE(check.passed) << label_of(variant) << " " << check.name << ": "
                                  << check.measured << " " << check.detail;
  }
}

ModelConfig turning(const std::string& attention) {
  ModelConfig config = small_transformer(2);
  config.attentions = parse_attentions(attention);
  config.positions = "rotary";
  config.dropout = 0;
  return config;
}

TEST(Rotary, StepsAreRows) {
  for (const std::string attention :
       {"softmax", "softmax:window=7", "local:block=8", "sparse:pattern={band:4+strided:8}",
        "topk:keys=5", "lsh:rounds=2:buckets=4:window=9", "routing:clusters=3:window=9", "informer",
        "gdn", "kda", "ssd", "retnet", "gla", "gdn/softmax", "linear:rule=delta",
        "linear:rule=gated-delta"}) {
    SCOPED_TRACE(attention);
    const Transformer model(turning(attention));
    for (const Parameter& parameter : model.parameters())
      EXPECT_EQ(parameter.name.find("position"), std::string::npos) << parameter.name;
    expect_steps_are_rows(model, some_ids(2, 48));
    ModelConfig plain = turning(attention);
    plain.positions = "sinusoidal";
    EXPECT_GT(relative_error(model.forward(some_ids(2, 48), false).value(),
                             Transformer(plain).forward(some_ids(2, 48), false).value()),
              1e-3);
  }
}

// A model without other positions tells them from each other.
TEST(Rotary, OrderMatters) {
  const Transformer model(turning("softmax"));
  const auto last = [&](const std::vector<int32_t>& ids) {
    const std::vector<double> all =
        model.forward(Tensor::from(ids, {1, 4}), false).value().to_doubles();
    return std::vector<double>(all.end() - 3, all.end());
  };
  EXPECT_NE(last({1, 2, 3, 4}), last({3, 2, 1, 4}));
}

TEST(Rotary, GoesWithSoftmaxAndRulesWithoutDenominator) {
  for (const std::string attention : {"linear", "linear:rule=gated", "performer", "vq", "soft-vq"})
    expect_error(ErrorKind::usage, {"`positions` rotary", attention.substr(0, 6)},
                 [&] { const Transformer model(turning(attention)); });
}

}  // namespace
}  // namespace linea

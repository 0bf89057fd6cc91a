// The scalar formulas against double, over the whole range of float.
#include "tensor/formulas.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/bfloat16.h"

namespace linea {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Calls body(x) for every `step`-th float in [low, high], both of one sign.
template <typename Body>
void sweep(float low, float high, uint32_t step, const Body& body) {
  const uint32_t a = same_bits<uint32_t>(low), b = same_bits<uint32_t>(high);
  for (uint64_t bits = std::min(a, b); bits <= std::max(a, b); bits += step)
    body(same_bits<float>(static_cast<uint32_t>(bits)));
}

double worst_of_exp(float low, float high, uint32_t step) {
  double worst = 0;
  sweep(low, high, step, [&](float x) {
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp_of(x)) - expected) / expected);
  });
  return worst;
}

TEST(ExpOf, RelativeErrorOfNormalResults) {
  const float smallest = -87.33654f;  // exp of it is the smallest normal float
  const double error =
      std::max(worst_of_exp(0.0f, 88.72f, 101), worst_of_exp(-0.0f, smallest, 101));
  EXPECT_LE(error, 1.3e-7);
}

// Below the normal range: to within one of the smallest steps that a float has there.
TEST(ExpOf, SubnormalResults) {
  sweep(-87.33654f, -104.0f, 13, [](float x) {
    ASSERT_NEAR(exp_of(x), std::exp(static_cast<double>(x)), 1.5e-45 * 1.01) << x;
  });
}

TEST(ExpOf, Limits) {
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(-0.0f), 1.0f);
  EXPECT_EQ(exp_of(-104.0f), 0.0f);
  EXPECT_EQ(exp_of(-1e30f), 0.0f);
  EXPECT_EQ(exp_of(-kInfinity), 0.0f);
  EXPECT_EQ(exp_of(88.73f), kInfinity);
  EXPECT_EQ(exp_of(1e30f), kInfinity);
  EXPECT_EQ(exp_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isfinite(exp_of(88.72f)));
  EXPECT_TRUE(std::isnan(exp_of(kNan)));
  EXPECT_TRUE(std::isnan(exp_of(-kNan)));
}

TEST(ExpBelow, MatchesExpForNormalResults) {
  sweep(-0.0f, -87.33f, 101, [](float x) { ASSERT_EQ(exp_below(x), exp_of(x)) << x; });
  for (const float x : {1e-7f, 1e-3f, 1.0f})
    EXPECT_EQ(exp_below(x), exp_of(x));  // a difference that was rounded up
}

TEST(ExpBelow, Limits) {
  EXPECT_EQ(exp_below(0.0f), 1.0f);
  for (const float x : {-87.34f, -88.0f, -104.0f, -1e30f, -kInfinity})
    EXPECT_EQ(exp_below(x), 0.0f) << x;
  EXPECT_TRUE(std::isnan(exp_below(kNan)));
}

// elu + 1 down to -80: relative, so that no digit of a small feature is lost.
TEST(FeatureElu, RelativeError) {
  const auto check = [](float x) {
    const double expected = x < 0 ? std::exp(static_cast<double>(x)) : static_cast<double>(x) + 1;
    ASSERT_NEAR(FeatureElu<float>::value(x), expected, 1e-6 * expected) << x;
  };
  sweep(-0.0f, -80.0f, 997, check);
  sweep(0.0f, 80.0f, 997, check);
}

TEST(Pointwise, ValuesAndGradientsInDouble) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  for (const double x : {-9.0, -2.5, -1.0, -0.3, -1e-9, 0.0, 0.4, 1.0, 3.0, 8.0}) {
    const double tanh_gelu = 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(Gelu<double>::value(x), tanh_gelu, 1e-15 + 1e-14 * std::abs(x));
    EXPECT_EQ(Relu<double>::value(x), x > 0 ? x : 0.0);
    EXPECT_EQ(FeatureRelu<double>::value(x), std::max(x, 0.0) + 1e-3);
    EXPECT_EQ(Relu<double>::grad(x), x > 0 ? 1.0 : 0.0);
    EXPECT_EQ(FeatureElu<double>::grad(x), x < 0 ? std::exp(x) : 1.0);
  }
  EXPECT_EQ(Gelu<float>::value(-300.0f), 0.0f);
  EXPECT_EQ(Gelu<float>::value(300.0f), 300.0f);
  EXPECT_EQ(Gelu<float>::grad(300.0f), 1.0f);
  EXPECT_NEAR(Gelu<float>::grad(-300.0f), 0.0f, 1e-30f);
}

TEST(Pointwise, NanStaysNan) {
  EXPECT_TRUE(std::isnan(FeatureElu<float>::value(kNan)));
  EXPECT_TRUE(std::isnan(Sigmoid<float>::value(kNan)));
  EXPECT_TRUE(std::isnan(LogGate<float>::value(kNan)));
  EXPECT_TRUE(std::isnan(LogOneMinusGate<float>::value(kNan)));
  EXPECT_TRUE(std::isnan(Gelu<float>::value(kNan)));
}

TEST(Formulas, KeepProbabilityAndReciprocal) {
  EXPECT_TRUE(keeps(0, 0.0f));
  EXPECT_FALSE(keeps(0, 0.5f));
  EXPECT_TRUE(keeps(0xffffffff, 0.99f));
  EXPECT_EQ(reciprocal_or_zero(0.0), 0.0);
  EXPECT_EQ(reciprocal_or_zero(-0.0), 0.0);
  EXPECT_EQ(reciprocal_or_zero(-4.0), -0.25);
  EXPECT_EQ(reciprocal_or_zero(1e-40F), 0.0F);
  EXPECT_EQ(reciprocal_or_zero(2e-36F), 0.0F);
  EXPECT_EQ(reciprocal_or_zero(-4e-36F), -1 / 4e-36F);
  EXPECT_EQ(reciprocal_or_zero(1e-300), 1 / 1e-300);
}

}  // namespace
}  // namespace linea

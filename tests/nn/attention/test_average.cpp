// The mean of values.
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

using namespace conformance;

TEST(Average, IsTheRunningMean) {
  const Sizes sizes{2, 2, 300, 5, 3};
  const Inputs x = draw(sizes, DType::f64);
  const auto attention = make_attention(options_of("average", 2, 5, 3, DType::f64));
  const AttentionInputs values{Var(), Var(), Var(x.v), Var()};
  const std::vector<double> v = x.v.to_doubles();
  for (const bool causal : {true, false}) {
    const std::vector<double> y = attention->forward(values, {causal, {}}).value().to_doubles();
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t m = 0; m < 3; ++m) {
        const auto at = [&](int64_t n) { return static_cast<size_t>((row * 300 + n) * 3 + m); };
        double sum = 0;
        for (int64_t n = 0; n < 300; ++n) sum += v[at(n)];
        double before = 0;
        for (int64_t n = 0; n < 300; ++n) {
          before += v[at(n)];
          ASSERT_NEAR(y[at(n)], causal ? before / static_cast<double>(n + 1) : sum / 300, 1e-12);
        }
      }
  }
}

TEST(Average, ReadsValuesAlone) {
  const auto attention = make_attention(options_of("average", 2, 5, 3, DType::f32));
  EXPECT_FALSE(attention->traits().reads_keys);
  EXPECT_FALSE(attention->traits().reads_queries);
  EXPECT_EQ(attention->start(1, DType::f32)->bytes(), 2 * (3 + 1) * sizeof(float));
}

}  // namespace
}  // namespace linea

// Scores of tables: a case by hand, tables of zeros, and positions that tables lack.
#include <cmath>

#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> synthesizer(const std::string& synth, const Sizes& sizes) {
  AttentionOptions options =
      options_of("synthesizer", sizes.heads, sizes.key_size, sizes.value_size, DType::f64);
  options.settings = {{"synth", synth}};
  options.length = sizes.length;
  return make_attention(options);
}

// t = 1, 2 and u = ln 2, ln 3, in the first of 8 columns: row 1 weighs values by exp(2 ln 2) and exp(2 ln 3).
TEST(Synthesizer, TwoRowsByHand) {
  const Sizes sizes{1, 1, 2, 3, 1};
  const auto attention = synthesizer("random", sizes);
  std::vector<double> t(16), u(16);
  t[0] = 1, t[8] = 2, u[0] = std::log(2.0), u[8] = std::log(3.0);
  ops::copy_into(Tensor::from(t, {1, 2, 8}), attention->parameters()[0].var.value());
  ops::copy_into(Tensor::from(u, {1, 2, 8}), attention->parameters()[1].var.value());
  const Var v(Tensor::from(std::vector<double>{10, 20}, {1, 1, 2, 1}));
  const std::vector<double> y =
      attention->forward({Var(), Var(), v, Var()}, {}).value().to_doubles();
  EXPECT_NEAR(y[0], 10, 1e-12);
  EXPECT_NEAR(y[1], (4 * 10 + 9 * 20) / 13.0, 1e-12);
  const auto both = attention->forward({Var(), Var(), v, Var()}, {false, {}}).value().to_doubles();
  EXPECT_NEAR(both[0], (2 * 10 + 3 * 20) / 5.0, 1e-12);
}

// With relu(q) = 0 the weights are exp(c_j): those of the table alone.
TEST(Synthesizer, DenseWithoutQueriesHasTheWeightsOfPositions) {
  const Sizes sizes{1, 1, 2, 3, 1};
  const auto attention = synthesizer("dense", sizes);
  EXPECT_TRUE(attention->traits().reads_queries);
  EXPECT_FALSE(attention->traits().reads_keys);
  ops::copy_into(Tensor::from(std::vector<double>{std::log(2.0), std::log(3.0)}, {1, 2}),
                 attention->parameters()[1].var.value());
  const Var q(Tensor::full({1, 1, 2, 3}, DType::f64, -1)),
      v(Tensor::from(std::vector<double>{10, 20}, {1, 1, 2, 1}));
  const auto y = attention->forward({q, Var(), v, Var()}, {}).value().to_doubles();
  EXPECT_NEAR(y[1], (2 * 10 + 3 * 20) / 5.0, 1e-12);
}

TEST(Synthesizer, RefusesPositionsWithoutTables) {
  const auto attention = synthesizer("random", {1, 1, 4, 2, 2});
  const Var v(Tensor::zeros({1, 1, 5, 2}, DType::f64));
  EXPECT_THROW(attention->forward({Var(), Var(), v, Var()}, {}), Error);
}

}  // namespace
}  // namespace linea

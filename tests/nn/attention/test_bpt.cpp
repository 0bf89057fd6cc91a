// The tree of means: limits, and spans that tile the past once.
#include <cmath>

#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> bpt(int64_t keys, const Sizes& sizes) {
  AttentionOptions options =
      options_of("bpt", sizes.heads, sizes.key_size, sizes.value_size, DType::f64);
  options.settings = {{"keys", keys}};
  options.length = sizes.length;
  return make_attention(options);
}

TEST(Bpt, OfLeavesAloneIsSoftmax) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  for (const bool causal : {true, false})
    for (const int64_t keys : {int64_t{150}, int64_t{1} << 30}) {
      const Outcome expected = run(*softmax, &Attention::forward, x, {causal, {}}),
                    found = run(*bpt(keys, sizes), &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
      EXPECT_LE(relative_error(found.dq, expected.dq), 1e-12);
      EXPECT_LE(relative_error(found.dk, expected.dk), 1e-12);
      EXPECT_LE(relative_error(found.dv, expected.dv), 1e-12);
    }
}

// Spans then weigh as many positions as they hold, so each position counts once.
TEST(Bpt, OfEqualKeysIsSoftmax) {
  for (const int64_t length : {1, 2, 7, 100, 129}) {
    const Sizes sizes{1, 2, length, 5, 7};
    Inputs x = draw(sizes, DType::f64);
    x.k = Tensor::full(x.k.shape(), DType::f64, 0.7);
    const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
    for (const bool causal : {true, false}) {
      const Tensor expected = run(*softmax, &Attention::forward, x, {causal, {}}).y;
      for (const int64_t keys : {1, 2, 3, 5, 16}) {
        const Tensor y = run(*bpt(keys, sizes), &Attention::forward, x, {causal, {}}).y;
        EXPECT_LE(relative_error(y, expected), 1e-12) << length << " " << keys;
      }
    }
  }
}

// One key a level, 7 positions, q = 0, v = 2^j: of the last row the leaf 6, the pair {4,5}, then {0..3}.
TEST(Bpt, SevenRowsByHand) {
  const Sizes sizes{1, 1, 7, 1, 1};
  std::vector<double> keys(7), values(7);
  keys[4] = keys[5] = std::log(3.0);
  for (int j = 0; j < 7; ++j) values[static_cast<size_t>(j)] = 1 << j;
  const Var q(Tensor::full({1, 1, 7, 1}, DType::f64, 1)), k(Tensor::from(keys, {1, 1, 7, 1})),
      v(Tensor::from(values, {1, 1, 7, 1}));
  const auto y = bpt(1, sizes)->forward({q, k, v, Var()}, {}).value().to_doubles();
  EXPECT_NEAR(y[6], (64 + 3 * (16 + 32) + (1 + 2 + 4 + 8)) / (1.0 + 6 + 4), 1e-12);
}

// The state does not depend on the number of positions so far, and grows with the log of `length`.
TEST(Bpt, StatesAreOfLogarithmicSize) {
  const auto bytes = [](int64_t length) {
    return bpt(2, {1, 1, length, 4, 4})->start(1, DType::f32)->bytes();
  };
  EXPECT_EQ(bytes(1 << 12) - bytes(1 << 11), 8 * (4 + 1 + 4) * sizeof(float));
}

}  // namespace
}  // namespace linea

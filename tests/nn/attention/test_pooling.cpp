// Two levels: spans of one position, spans by hand, and rows without a span.
#include "autograd/ops.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> pooling(const Settings& settings, const Sizes& sizes) {
  AttentionOptions options =
      options_of("pooling", sizes.heads, sizes.key_size, sizes.value_size, DType::f64);
  options.settings = settings;
  options.length = sizes.length;
  return make_attention(options);
}

TEST(Pooling, OfSpansOfOnePositionIsTwiceTheBand) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  AttentionOptions band = options_of("softmax", 2, 5, 7, DType::f64);
  band.settings = {{"window", int64_t{30}}};
  for (const bool causal : {true, false})
    for (const char* kind : {"mean", "max"}) {
      const auto attention = pooling({{"window", int64_t{30}},
                                      {"outer", int64_t{30}},
                                      {"pool_size", int64_t{1}},
                                      {"pool_stride", int64_t{1}},
                                      {"pooling", std::string(kind)}},
                                     sizes);
      const Outcome one = run(*make_attention(band), &Attention::forward, x, {causal, {}}),
                    two = run(*attention, &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(two.y, ops::scale(one.y, 2)), 1e-12);
      EXPECT_LE(relative_error(two.dq, ops::scale(one.dq, 2)), 1e-12);
      EXPECT_LE(relative_error(two.dv, ops::scale(one.dv, 2)), 1e-12);
    }
}

// q = 0, a window of 1: y_i = v_i, and the mean over the spans [0,2), [1,3) ... in (i - 3, i].
TEST(Pooling, SpansByHand) {
  const Sizes sizes{1, 1, 5, 1, 1};
  const Var q(Tensor::zeros({1, 1, 5, 1}, DType::f64)),
      v(Tensor::from(std::vector<double>{1, 2, 4, 8, 16}, {1, 1, 5, 1}));
  const auto y = [&](const char* kind) {
    return pooling({{"window", int64_t{1}},
                    {"outer", int64_t{3}},
                    {"pool_size", int64_t{2}},
                    {"pool_stride", int64_t{1}},
                    {"pooling", std::string(kind)}},
                   sizes)
        ->forward({q, q, v, Var()}, {})
        .value()
        .to_doubles();
  };
  EXPECT_EQ(y("mean"), (std::vector<double>{1, 3.5, 4 + 2.25, 8 + 4.5, 16 + 9}));
  EXPECT_EQ(y("max"), (std::vector<double>{1, 4, 4 + 3, 8 + 6, 16 + 12}));
}

TEST(PoolSpans, OfEqualsTheFirstTakesTheGradient) {
  const Var x(Tensor::from(std::vector<double>{1, 3, 3, 2, 3}, {1, 1, 5, 1}), true);
  const Var y = pool_spans(x, 3, 2, true);
  EXPECT_EQ(y.value().to_doubles(), (std::vector<double>{3, 3}));
  backward(y, Tensor::from(std::vector<double>{10, 100}, {1, 1, 2, 1}));
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{0, 10, 100, 0, 0}));
}

}  // namespace
}  // namespace linea

// Biases by distance: limits, a wide span, updates of spans and their loss.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> prior(const std::string& kind, const Sizes& sizes, double parameter,
                                 DType dtype = DType::f64) {
  AttentionOptions options =
      options_of("prior", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = {{"prior", kind}, {"ramp", int64_t{20}}};
  options.length = sizes.length;
  std::unique_ptr<Attention> attention = make_attention(options);
  write_values(std::vector<double>(static_cast<size_t>(sizes.heads), parameter),
               attention->parameters()[0].var.value());
  return attention;
}

// A width without end, and a span of all positions.
TEST(Prior, OfAllPositionsIsSoftmax) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  for (const bool causal : {true, false}) {
    const Outcome expected = run(*softmax, &Attention::forward, x, {causal, {}});
    for (const auto& [kind, parameter] :
         std::vector<std::pair<std::string, double>>{{"gaussian", 40}, {"span", 1}}) {
      const Outcome found =
          run(*prior(kind, sizes, parameter), &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-12) << kind;
      EXPECT_LE(relative_error(found.dq, expected.dq), 1e-12) << kind;
      EXPECT_LE(relative_error(found.dk, expected.dk), 1e-12) << kind;
    }
  }
}

// Spans of 0.3, whose ramps end within the sequence: forms agree, gradients of z too.
TEST(Prior, SpansWithinASequence) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  for (const bool causal : {true, false})
    for (const auto& [kind, parameter] :
         std::vector<std::pair<std::string, double>>{{"gaussian", 1.5}, {"span", 0.3}}) {
      const auto attention = prior(kind, sizes, parameter);
      const Outcome expected = run(*attention, &Attention::quadratic, x, {causal, {}}),
                    found = run(*attention, &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-11) << kind;
      EXPECT_LE(gradient_error(found, expected), 1e-9) << kind;
      EXPECT_GT(relative_error(found.dparameters[0], Tensor::zeros({2}, DType::f64)), 0) << kind;
    }
}

// z = 0.1 and a length of 50: m is 1 up to 5, and 0 from about 25 on.
TEST(Prior, ASpanOfZeroReadsItsRamp) {
  const Sizes sizes{1, 1, 50, 2, 1};
  const auto attention = prior("span", sizes, 0.1);
  const Var q(Tensor::zeros({1, 1, 50, 2}, DType::f64));
  std::vector<double> values(50);
  values[0] = 1;
  const Var v(Tensor::from(values, {1, 1, 50, 1}));
  const std::vector<double> y = attention->forward({q, q, v, Var()}, {}).value().to_doubles();
  EXPECT_NEAR(y[5], 1.0 / 6, 1e-7);
  EXPECT_NEAR(y[24], 0.05 / (6 + 19 * 0.5), 1e-7);
  EXPECT_EQ(y[26], 0);
}

TEST(Prior, SpansStayWithinBoundsAndCost) {
  const Sizes sizes{1, 2, 100, 2, 2};
  const auto attention = prior("span", sizes, 1.5);
  attention->after_step();
  const Var z = attention->parameters()[0].var;
  EXPECT_EQ(z.value().to_doubles(), (std::vector<double>{1, 1}));
  const Var loss = attention->auxiliary_loss({}, {});
  EXPECT_NEAR(loss.value().item(), 2e-6 * 100, 1e-12);
  backward(loss);
  EXPECT_NEAR(z.grad().to_doubles()[0], 2e-6 * 100 / 2, 1e-12);
  EXPECT_FALSE(attention->traits().recomputable);
  EXPECT_TRUE(prior("gaussian", sizes, 1)->traits().recomputable);
}

}  // namespace
}  // namespace linea

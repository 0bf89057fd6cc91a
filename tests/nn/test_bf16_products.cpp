// Layers whose factors are rounded to bf16 on a CPU: loss and gradients near those of float.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/backend.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/small_transformer.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

struct Results {
  double loss;
  std::vector<std::vector<double>> gradients;
};

Results step(const ModelConfig& config, FloatProducts products) {
  context().products = products;
  const Transformer model(config);
  const Var loss = cross_entropy(model.forward(some_ids(4, 48), true), some_ids(4, 48, 5));
  backward(loss);
  Results results{loss.value().item(), {}};
  for (const Parameter& parameter : model.parameters())
    results.gradients.push_back(parameter.var.grad().to_doubles());
  context().products = FloatProducts::exact;
  return results;
}

// |difference| / |expected| over all parameters.
double relative(const Results& found, const Results& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.gradients.size(); ++i)
    for (size_t j = 0; j < expected.gradients[i].size(); ++j) {
      difference += std::pow(found.gradients[i][j] - expected.gradients[i][j], 2);
      norm += std::pow(expected.gradients[i][j], 2);
    }
  return std::sqrt(difference / norm);
}

TEST(Bf16Products, GradientsOfAStepAreNearThoseOfFloat) {
  if (bf16_isa() == nullptr) GTEST_SKIP() << "this processor has no kernel of bf16 products";
  for (const AttentionEntry& entry : share_of(causal_attentions(), 4))
    for (const bool tie : {false, true}) {
      ModelConfig config = small_transformer(2);
      config.dim = 64;
      config.ffn = 96;
      config.dropout = 0;
      config.tie = tie;
      config.attentions = {entry.variant_options().front()};
      const Results exact = step(config, FloatProducts::exact),
                    rounded = step(config, FloatProducts::rounded),
                    again = step(config, FloatProducts::rounded);
      EXPECT_NEAR(rounded.loss, exact.loss, 2e-3 * exact.loss) << entry.name;
      const double error = relative(rounded, exact);
      EXPECT_LE(error, 0.02) << entry.name;
      EXPECT_GT(error, 1e-4) << entry.name;  // factors were rounded
      EXPECT_EQ(again.gradients, rounded.gradients) << entry.name;
    }
}

// Bytes that the tape of a forward pass holds.
double saved_bytes(const ModelConfig& config, FloatProducts products) {
  context().products = products;
  const Transformer model(config);
  const size_t before = device_allocator().use().held;
  const Var outputs = model.forward(some_ids(4, 512), true);
  context().products = FloatProducts::exact;
  return static_cast<double>(device_allocator().use().held - before - outputs.value().bytes());
}

TEST(Bf16Products, SavedActivationsTakeHalfTheMemory) {
  if (bf16_isa() == nullptr) GTEST_SKIP() << "this processor has no kernel of bf16 products";
  for (const char* const name : {"linear", "softmax"}) {
    ModelConfig config = small_transformer(2);
    config.dim = config.ffn = 64;
    config.length = 512;
    config.attentions = {find_attention(name).variant_options().front()};
    const double ratio =
        saved_bytes(config, FloatProducts::rounded) / saved_bytes(config, FloatProducts::exact);
    EXPECT_LT(ratio, 0.56) << name;
    EXPECT_GT(ratio, 0.44) << name;
  }
}

}  // namespace
}  // namespace linea

// The gradients of every attention in a model, the same bits with one and three threads.
#include <gtest/gtest.h>

#include <cstring>

#include "autograd/ops.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

std::vector<Tensor> gradients(const ModelConfig& config, int threads) {
  const int before = context().threads;
  set_threads(threads);
  const Transformer model(config);
  backward(cross_entropy(model.forward(some_ids(16, 196), true), some_ids(16, 196, 5)));
  set_threads(before);
  std::vector<Tensor> all;
  for (const Parameter& parameter : model.parameters()) all.push_back(parameter.var.grad());
  return all;
}

TEST(ThreadCounts, DoNotChangeTheGradientsOfAModel) {
  for (const AttentionEntry& entry : attentions()) {
    ModelConfig config = small_transformer(1);
    config.dim = 96;
    config.ffn = 136;
    config.length = 196;
    config.attention = entry.variant_options().front();
    const std::vector<Tensor> expected = gradients(config, 1), found = gradients(config, 3);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(std::memcmp(expected[i].address(), found[i].address(), expected[i].bytes()), 0)
          << entry.name << ", parameter " << i;
  }
}

}  // namespace
}  // namespace linea

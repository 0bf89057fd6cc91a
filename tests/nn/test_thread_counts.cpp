// The gradients of every attention in a model, the same bits with one and three threads, exact and
// with factors rounded to bf16.
#include <gtest/gtest.h>

#include <cstring>

#include "autograd/ops.h"
#include "base/scoped.h"
#include "tensor/backend.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/small_transformer.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

std::vector<Tensor> gradients(const ModelConfig& config, int64_t batch, int threads) {
  const int before = context().threads;
  set_threads(threads);
  const Transformer model(config);
  backward(cross_entropy(model.forward(some_ids(batch, config.length), true),
                         some_ids(batch, config.length, 5)));
  set_threads(before);
  std::vector<Tensor> all;
  for (const Parameter& parameter : model.parameters()) all.push_back(parameter.var.grad());
  return all;
}

void expect_same_gradients(const ModelConfig& config, int64_t batch, const std::string& name) {
  const std::vector<Tensor> expected = gradients(config, batch, 1),
                            found = gradients(config, batch, 3);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::memcmp(expected[i].address(), found[i].address(), expected[i].bytes()), 0)
        << name << ", parameter " << i;
}

class ThreadCounts : public testing::TestWithParam<FloatProducts> {
 protected:
  void SetUp() override {
    if (GetParam() == FloatProducts::rounded && bf16_isa() == nullptr)
      GTEST_SKIP() << "this processor has no kernel of bf16 products";
    if (GetParam() == FloatProducts::exact && kSanitized && bf16_isa() != nullptr)
      GTEST_SKIP() << "rounded factors go through the same places";
  }

 private:
  Scoped<FloatProducts> products_{context().products, GetParam()};
};

TEST_P(ThreadCounts, DoNotChangeTheGradientsOfAModel) {
  for (const AttentionEntry& entry : share_of(causal_attentions(), 4)) {
    ModelConfig config = small_transformer(1);
    config.dim = 96;
    config.ffn = 136;
    config.length = 196;
    config.attentions = {entry.variant_options().front()};
    expect_same_gradients(config, 16, entry.name);
  }
}

// Keys of 64, and a position after the last whole segment.
TEST_P(ThreadCounts, DoNotChangeTheGradientsOfAVariant) {
  for (const AttentionEntry& entry : share_of(causal_attentions(), 3))
    for (const AttentionOptions& variant : share_of(entry.variant_options(), 8)) {
      ModelConfig config = small_transformer(1);
      config.dim = 128;
      config.length = 513;
      config.attentions = {variant};
      expect_same_gradients(config, 3, label_of(variant));
    }
}

// A thread computes a tile of some heads.
TEST_P(ThreadCounts, DoNotChangeTheGradientsOfTiles) {
  const std::vector<std::pair<const char*, Settings>> attentions_of_tiles = {
      {"performer", {{"features", 256}}},
      {"performer", {{"features", 256}, {"feature", "hyperbolic"}}},
      {"performer", {{"features", 256}, {"feature", "trig"}}},
      {"vq", {{"codes", 256}}},
      {"linear", {{"feature", "dpfp"}, {"nu", 2}}},
      {"linear", {{"feature", "square"}}},
      {"linear", {{"rule", "gated-delta"}}}};
  for (const auto& [name, settings] : share_of(attentions_of_tiles, 2)) {
    ModelConfig config = small_transformer(1);
    config.dim = 64;
    config.length = 300;
    config.attentions[0].name = name;
    config.attentions[0].settings = settings;
    expect_same_gradients(config, 16, label_of(config.attentions[0]));
  }
}

// A thread computes whole heads: more threads than heads.
TEST_P(ThreadCounts, DoNotChangeTheGradientsOfOneSequence) {
  for (const AttentionEntry& entry : share_of(causal_attentions(), 3))
    for (const AttentionOptions& variant : share_of(entry.variant_options(), 8)) {
      ModelConfig config = small_transformer(1);
      config.dim = 64;
      config.length = 258;
      config.heads = 1;
      config.attentions = {variant};
      expect_same_gradients(config, 1, label_of(variant));
    }
}

INSTANTIATE_TEST_SUITE_P(Products, ThreadCounts,
                         testing::Values(FloatProducts::exact, FloatProducts::rounded),
                         [](const testing::TestParamInfo<FloatProducts>& of) {
                           return of.param == FloatProducts::exact ? "exact" : "rounded";
                         });

}  // namespace
}  // namespace linea

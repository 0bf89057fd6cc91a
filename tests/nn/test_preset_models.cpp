// Models with all that the best presets of images and of text switch on: parts that hold alone hold
// together, in all forms and at any number of threads.
#include <gtest/gtest.h>

#include <cstring>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/optimizer.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

constexpr int64_t kPresetClasses = 2, kPixelTokens = kTokens - kPresetClasses;

// As cifar10-cpu: images of 4 x 4 pixels of 3 channels, and their class at every position.
ModelConfig image_preset() {
  ModelConfig config = small_transformer(2);
  config.dim = 48;
  config.dropout = 0;
  config.vocab_size = kPixelTokens;
  config.classes = kPresetClasses;
  config.class_embedding = "every";
  config.image_width = 4;
  config.image_channels = 3;
  config.positions = "learned+grid";
  config.layer_convolution = "2d";
  config.attentions[0].settings = {{"rule", "gated"}, {"memory", "long"}};
  return config;
}

// As shakespeare-best, with what else a text may have.
ModelConfig text_preset() {
  ModelConfig config = small_transformer(2);
  config.dim = 48;
  config.dropout = 0.15f;
  config.tie = true;
  config.bias = false;
  config.layer_convolution = "1d";
  config.attention_output = "gated";
  config.attentions[0].settings = {{"rule", "gated"}};
  return config;
}

std::vector<ModelConfig> presets() { return {image_preset(), text_preset()}; }

// Sequences of this model: of images, a class and then tokens of pixels.
Tensor preset_ids(const ModelConfig& config, int64_t B, int32_t salt = 0) {
  std::vector<int32_t> ids = some_ids(B, config.length, salt).to_vector<int32_t>();
  for (size_t i = 0; config.classes > 0 && i < ids.size(); ++i) {
    ids[i] %= static_cast<int32_t>(kPixelTokens);
    const auto row = static_cast<int64_t>(i) / config.length;
    if (static_cast<int64_t>(i) % config.length == 0)
      ids[i] = static_cast<int32_t>(kPixelTokens + row % kPresetClasses);
  }
  return Tensor::from(ids, {B, config.length});
}

Tensor preset_targets(const ModelConfig& config, int64_t B) {
  std::vector<int32_t> targets = some_ids(B, config.length, 5).to_vector<int32_t>();
  for (int32_t& target : targets) target %= static_cast<int32_t>(config.vocab_size);
  return Tensor::from(targets, {B, config.length});
}

// Random weights everywhere: those that start as zeros or as the identity count too.
void move_all_weights(const Transformer& model) {
  uint32_t stream_id = 300;
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<float> noise =
        random_tensor(parameter.var.shape(), stream_id++, 0.3, 0, DType::f32).to_vector<float>();
    std::vector<float> values = parameter.var.value().to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] += noise[i];
    parameter.var.value().write(values.data());
  }
}

TEST(PresetModels, LaterTokensDoNotChangeABitOfEarlierScores) {
  for (const ModelConfig& config : presets()) {
    const Transformer model(config);
    move_all_weights(model);
    const int64_t N = config.length;
    const std::vector<int32_t> ids = preset_ids(config, 1).to_vector<int32_t>();
    const auto scores = [&](const std::vector<int32_t>& tokens) {
      return model.forward(Tensor::from(tokens, {1, N}), false).value().to_vector<float>();
    };
    const std::vector<float> before = scores(ids);
    for (int64_t changed = 1; changed < N; ++changed) {
      std::vector<int32_t> other = ids;
      int32_t& token = other[static_cast<size_t>(changed)];
      token = (token + 1) % static_cast<int32_t>(kPixelTokens);
      const std::vector<float> after = scores(other);
      const auto past = static_cast<size_t>(changed * config.vocab_size);
      EXPECT_EQ(std::memcmp(before.data(), after.data(), past * sizeof(float)), 0) << changed;
      EXPECT_FALSE(std::equal(before.begin() + static_cast<int64_t>(past), before.end(),
                              after.begin() + static_cast<int64_t>(past)))
          << changed;
    }
  }
}

TEST(PresetModels, SamplingStepsAreTheRowsOfTheWhole) {
  for (const ModelConfig& config : presets()) {
    const Transformer model(config);
    move_all_weights(model);
    expect_steps_are_rows(model, preset_ids(config, 3));
  }
}

// The losses, the weights and the moments of two steps of Muon.
std::vector<double> two_steps(const ModelConfig& config, int threads) {
  const int before = context().threads;
  set_threads(threads);
  const Transformer model(config);
  Optimizer optimizer({.name = "muon", .settings = {{"weight_decay", 0.01}}, .peak = 3e-3},
                      model.parameters());
  std::vector<double> all;
  const auto append = [&](const Tensor& tensor) {
    for (const double x : tensor.to_doubles()) all.push_back(x);
  };
  for (uint64_t step = 0; step < 2; ++step) {
    context().step->step = step;
    const Var loss =
        cross_entropy(model.forward(preset_ids(config, 8), true), preset_targets(config, 8));
    backward(loss);
    EXPECT_TRUE(optimizer.step(3e-3));
    append(loss.value());
  }
  for (const Parameter& parameter : model.parameters()) append(parameter.var.value());
  for (const auto& moment : optimizer.moments()) append(moment.tensor);
  set_threads(before);
  return all;
}

TEST(PresetModels, TwoStepsHaveTheSameBitsAtAnyNumberOfThreads) {
  if (std::string(cpu_isa()) == "128-bit")
    GTEST_SKIP() << "the base build computes products by BLAS";
  for (const ModelConfig& config : presets()) {
    const std::vector<double> expected = two_steps(config, 1);
    for (const int threads : {2, 3}) EXPECT_EQ(two_steps(config, threads), expected) << threads;
  }
}

}  // namespace
}  // namespace linea

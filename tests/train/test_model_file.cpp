// What a model is at least made of, known before any of it is in memory.
#include "train/model_file.h"

#include <gtest/gtest.h>

#include "nn/transformer.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/small_transformer.h"
#include "train/run/out_of_memory_hint.h"

namespace linea {
namespace {

void expect_near_below(const ModelConfig& config, const std::string& name) {
  const auto weights = static_cast<double>(count_elements(Transformer(config).parameters()));
  double counted = 0;
  for (const WeightCount& count : count_weights(config)) counted += count.elements;
  EXPECT_LE(counted, weights) << name;
  EXPECT_GT(counted, 0.5 * weights) << name;
}

// Attentions that read no keys, or values alone, have fewer projections.
TEST(CountWeights, AreMostOfEveryModelsAndNotMore) {
  ModelConfig config = small_transformer(3);
  config.dim = 128;
  config.ffn = 16;
  for (const AttentionEntry& entry : causal_attentions())
    for (const AttentionOptions& variant : entry.variant_options()) {
      config.attentions = {variant};
      expect_near_below(config, label_of(variant));
    }
  config.attentions = parse_attentions("linear/average");
  expect_near_below(config, "linear/average");
}

// What to lower is said of every attention, those of images too.
TEST(OutOfMemoryHint, IsThereForEveryAttention) {
  for (const AttentionEntry& entry : attentions()) {
    RunConfig config;
    config.task = "digits";
    config.attention = entry.name;
    EXPECT_NE(out_of_memory_hint(config, false).find("`layers` ("), std::string::npos)
        << entry.name;
  }
}

}  // namespace
}  // namespace linea

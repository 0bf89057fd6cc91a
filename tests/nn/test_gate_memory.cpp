// How long the heads of the gated rules remember at first.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

// tau = exp(bias) + 1 positions.
std::vector<double> first_memory(const std::string& memory, int64_t length,
                                 const std::string& rule = "gated") {
  ModelConfig config = small_transformer(1);
  config.length = length;
  config.heads = 4;
  config.attentions[0].settings = {{"rule", rule}, {"memory", memory}};
  const Transformer model(config);
  for (const Parameter& parameter : model.parameters())
    if (parameter.name == "blocks.0.gate.bias") {
      std::vector<double> taus;
      for (const double bias : parameter.var.value().to_doubles())
        taus.push_back(std::exp(bias) + 1);
      return taus;
    }
  return {};
}

TEST(GateMemory, LongReachesTwiceTheLength) {
  const std::vector<double> is_short = {2, 4, 8, 16}, is_long = {4, 32, 256, 2048};
  for (size_t head = 0; head < 4; ++head) {
    EXPECT_NEAR(first_memory("short", 1024)[head], is_short[head], 0.01);
    EXPECT_NEAR(first_memory("long", 1024)[head], is_long[head], 1e-3 * is_long[head]);
    EXPECT_EQ(first_memory("auto", 1024)[head], first_memory("long", 1024)[head]);
  }
  EXPECT_EQ(first_memory("auto", 256), first_memory("short", 256));
  EXPECT_EQ(first_memory("auto", 257), first_memory("long", 257));
}

// Applies to the decay of each head, not to its beta.
TEST(GateMemory, TheGatedDeltaRuleHasThatOfTheGatedRule) {
  const std::vector<double> gated = first_memory("long", 1024),
                            both = first_memory("long", 1024, "gated-delta");
  ASSERT_EQ(both.size(), 2 * gated.size());
  for (size_t head = 0; head < gated.size(); ++head) {
    EXPECT_EQ(both[2 * head], 2);  // a bias of 0
    EXPECT_EQ(both[2 * head + 1], gated[head]);
  }
}

}  // namespace
}  // namespace linea

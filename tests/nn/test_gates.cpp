// Gates of models: logits all the way to the kernels, in training and in sampling.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/attention/mapped_attention.h"
#include "nn/feature_map.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

ModelConfig with_rule(const std::string& rule) {
  ModelConfig config = small_transformer(2);
  config.dropout = 0;
  config.attentions[0].name = "linear";
  config.attentions[0].settings["rule"] = rule;
  return config;
}

void fill(const Model& model, const std::string& ending, float value) {
  for (const Parameter& parameter : model.parameters())
    if (parameter.name.ends_with(ending)) {
      const std::vector<float> values(static_cast<size_t>(parameter.var.value().numel()), value);
      parameter.var.value().write(values.data());
    }
}

// Where all gates are 1 up to rounding, the gated rule is the sum rule.
TEST(Gates, ALogitThatFloatRoundsToOneStillWrites) {
  const Tensor ids = some_ids(2, 48);
  Transformer gated(with_rule("gated"));
  fill(gated, ".gate.weight", 0);
  Transformer sum(with_rule("sum"));
  for (const Parameter& target : sum.parameters())
    for (const Parameter& source : gated.parameters())
      if (source.name == target.name)
        target.var.value().write(source.var.value().to_vector<float>().data());
  const Tensor expected = sum.forward(ids, false).value();
  for (const float bias : {17.0f, 25.0f, 60.0f}) {
    fill(gated, ".gate.bias", bias);
    EXPECT_LE(relative_error(gated.forward(ids, false).value(), expected), 1e-5) << bias;
    expect_steps_are_rows(gated, ids);
  }
}

TEST(Gates, StepsAreRowsAtLogitsOfAllSizes) {
  for (const std::string rule : {"gated", "delta", "gated-delta"})
    for (const float bias : {-110.0f, -20.0f, 0.0f, 20.0f}) {
      SCOPED_TRACE(rule + " " + std::to_string(bias));
      Transformer model(with_rule(rule));
      fill(model, ".gate.bias", bias);
      expect_steps_are_rows(model, some_ids(2, 48));
      backward(cross_entropy(model.forward(some_ids(2, 48), true), some_ids(2, 48)));
      for (const Parameter& parameter : model.parameters())
        EXPECT_EQ(ops::count_nonfinite(parameter.var.grad()), 0) << parameter.name;
    }
}

// The gated rule, with gates by dim -> 3 -> heads.
class LowRankGates final : public MappedAttention {
 public:
  explicit LowRankGates(const AttentionOptions& options)
      : MappedAttention(options, make_feature_map("elu", 1), gated_rule()) {
    gate_.rank = 3;
    gate_.initial_bias.assign(static_cast<size_t>(options.heads), 1.5);
  }
};

// A projection of low rank is a full one whose matrix is the product of two.
TEST(Gates, ALowRankIsAProductOfMatrices) {
  register_attention({.name = "low-rank-gates",
                      .summary = "",
                      .source = "",
                      .settings = {},
                      .make = std::make_unique<LowRankGates, const AttentionOptions&>,
                      .variants = {}});
  ModelConfig config = with_rule("gated");
  config.attentions = {{}};
  config.attentions[0].name = "low-rank-gates";
  Transformer low(config);
  Transformer full(with_rule("gated"));
  const auto of = [](const Model& model, const std::string& name) {
    for (const Parameter& parameter : model.parameters())
      if (parameter.name == name) return parameter.var;
    return Var();
  };
  for (const Parameter& parameter : full.parameters())
    if (const Var same = of(low, parameter.name);
        same.defined() && same.shape() == parameter.var.shape())
      ops::copy_into(same.value(), parameter.var.value());
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    EXPECT_EQ(of(low, block + "gate_down.weight").shape(), (Shape{3, 16}));
    EXPECT_EQ(of(low, block + "gate.weight").shape(), (Shape{2, 3}));
    EXPECT_FALSE(of(low, block + "gate_down.bias").defined());
    EXPECT_EQ(of(low, block + "gate.bias").value().to_doubles(), std::vector<double>(2, 1.5));
    // large enough to show in the outputs
    const Tensor down = of(low, block + "gate_down.weight").value();
    ops::copy_into(ops::scale(down, 100), down);
    ops::copy_into(ops::matmul(of(low, block + "gate.weight").value(), down),
                   of(full, block + "gate.weight").value());
  }
  const Tensor ids = some_ids(2, 48);
  EXPECT_LE(relative_error(low.forward(ids, false).value(), full.forward(ids, false).value()),
            1e-5);
  expect_steps_are_rows(low, ids);
  backward(cross_entropy(low.forward(ids, true), ids));
  const Tensor gradient = of(low, "blocks.0.gate_down.weight").grad();
  ASSERT_TRUE(gradient.defined());
  for (const double x : gradient.to_doubles()) EXPECT_TRUE(std::isfinite(x) && x != 0) << x;
}

}  // namespace
}  // namespace linea

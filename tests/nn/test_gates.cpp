// Gates of models: logits all the way to the kernels, in training and in sampling.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
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

}  // namespace
}  // namespace linea

// Gated outputs of attention: in every form of the model, trained, and off without a trace.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/retrieval_model.h"
#include "tensor/context.h"
#include "tests/expect_error.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

ModelConfig with_output(const std::string& output, const std::string& attention = "linear") {
  ModelConfig config = small_transformer(2);
  config.dropout = 0;
  config.attention_output = output;
  config.attentions[0].name = attention;
  return config;
}

bool is_of_output(const Parameter& parameter) {
  return parameter.name.find("output_gate") != std::string::npos ||
         parameter.name.find("output_norm") != std::string::npos;
}

// Gates and weights of norms that differ from where they start.
void randomize_outputs(Transformer& model) {
  for (const Parameter& parameter : model.parameters())
    if (is_of_output(parameter)) {
      const Tensor random =
          random_tensor(parameter.var.shape(), parameter.name[7], 0.5, 0, DType::f32);
      parameter.var.value().write(random.to_vector<float>().data());
    }
}

std::vector<std::vector<double>> gradients_of(const Transformer& model, const Tensor& ids) {
  for (const Parameter& parameter : model.parameters()) Var(parameter.var).clear_grad();
  backward(cross_entropy(model.forward(ids, true), ids));
  std::vector<std::vector<double>> gradients;
  for (const Parameter& parameter : model.parameters())
    gradients.push_back(parameter.var.grad().to_doubles());
  return gradients;
}

TEST(AttentionOutput, ItsParametersAreThoseOfThePlainModelAndItsOwn) {
  for (const std::string attention : {"linear", "performer", "softmax"}) {
    const Transformer plain(with_output("plain", attention)),
        gated(with_output("gated", attention));
    size_t next = 0, own = 0;
    for (const Parameter& parameter : gated.parameters()) {
      if (is_of_output(parameter)) {
        ++own;
        EXPECT_EQ(parameter.matrices, parameter.var.shape().rank() == 2 ? 1 : 0);
        continue;
      }
      ASSERT_LT(next, plain.parameters().size());
      EXPECT_EQ(parameter.name, plain.parameters()[next].name);
      EXPECT_EQ(parameter.var.value().to_doubles(),
                plain.parameters()[next++].var.value().to_doubles());
    }
    EXPECT_EQ(own, attention == "softmax" ? 2 : 4);  // softmax: no norm
    EXPECT_EQ(gated.matrix_weights() - plain.matrix_weights(), 2 * 16 * 16);
  }
}

TEST(AttentionOutput, SamplingStepsAreTheRowsOfTheWhole) {
  for (const std::string attention : {"linear", "performer", "soft-vq", "vq", "softmax"})
    for (const std::string rule : {"sum", "gated", "delta", "gated-delta"})
      for (const bool reversible : {false, true}) {
        if (attention != "linear" && rule != "sum") continue;
        if (attention == "vq" && reversible) continue;
        ModelConfig config = with_output("gated", attention);
        if (attention == "linear") config.attentions[0].settings["rule"] = rule;
        config.reversible = reversible;
        Transformer model(config);
        randomize_outputs(model);
        SCOPED_TRACE(testing::Message() << attention << rule << reversible);
        expect_steps_are_rows(model, some_ids(2, 48));
      }
}

// A later token changes no bit of an earlier output.
TEST(AttentionOutput, IsCausal) {
  Transformer model(with_output("gated"));
  randomize_outputs(model);
  std::vector<int32_t> tokens = some_ids(1, 48).to_vector<int32_t>();
  const std::vector<float> before =
      model.forward(Tensor::from(tokens, {1, 48}), false).value().to_vector<float>();
  tokens[30] = (tokens[30] + 1) % 11;
  const std::vector<float> after =
      model.forward(Tensor::from(tokens, {1, 48}), false).value().to_vector<float>();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 30 * 11, after.begin()));
  EXPECT_NE(before, after);
}

TEST(AttentionOutput, GradientsAreTheSameTwiceAndByAnyNumberOfThreads) {
  const Tensor ids = some_ids(2, 48);
  std::vector<std::vector<double>> first;
  const int before = context().threads;
  for (const bool recompute : {false, true})
    for (const int threads : {1, 2}) {
      ModelConfig config = with_output("gated");
      config.recompute = recompute;
      Transformer model(config);
      randomize_outputs(model);
      set_threads(threads);
      const auto gradients = gradients_of(model, ids);
      if (first.empty()) first = gradients;
      EXPECT_EQ(gradients, first);
    }
  set_threads(before);
  const Transformer model(with_output("gated"));
  const auto gradients = gradients_of(model, ids);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (is_of_output(model.parameters()[i])) {
      EXPECT_EQ(std::count(gradients[i].begin(), gradients[i].end(), 0.0), 0)
          << model.parameters()[i].name;
    }
}

TEST(AttentionOutput, RefusesWhatItDoesNotKnow) {
  expect_error(ErrorKind::usage, {"`attention_output` is 'normed'", "plain, gated"},
               [] { Transformer{with_output("normed")}; });
  ModelConfig pairs = with_output("gated");
  pairs.second_vocab_size = 3;
  pairs.layers = pairs.heads = 1;
  expect_error(ErrorKind::usage, {"without `attention_output`"}, [&] { RetrievalModel{pairs}; });
}

}  // namespace
}  // namespace linea

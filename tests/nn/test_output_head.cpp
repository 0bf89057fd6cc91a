// Heads: one interface for training, evaluation and sampling, whatever the numbers of a model mean.
#include "nn/output_head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/generation.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

ModelConfig small(const std::string& head, int64_t levels) {
  ModelConfig config;
  config.output_head = head;
  config.layers = 1;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 24;
  config.length = 6;
  config.vocab_size = levels;
  config.input_vocab_size = levels + 1;
  return config;
}

Tensor some_tokens(int64_t rows, int64_t levels, int64_t step) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < rows * 6; ++i)
    tokens.push_back(static_cast<int32_t>((i * i + step * i) % levels));
  return Tensor::from(tokens, {rows, 6});
}

TEST(OutputHead, ScoresMatchLosses) {
  for (const char* name : {"categorical", "logistics"})
    for (const int64_t tokens : {2, 16, 256}) {
      const OutputHead head(name, tokens);
      const Tensor outputs = random_tensor({3, 4, head.outputs()}, 1, 1.0, 0.0);
      std::vector<int32_t> ids;
      for (int64_t i = 0; i < 12; ++i)
        ids.push_back(i == 5 ? -1 : static_cast<int32_t>(i * 37 % tokens));
      const Tensor targets = Tensor::from(ids, {3, 4});
      const std::vector<double> scores = ops::softmax(head.scores(outputs)).to_doubles();
      const std::vector<double> losses = head.losses(outputs, targets).to_doubles();
      double mean = 0;
      for (size_t i = 0; i < 12; ++i) {
        const auto at = i * static_cast<size_t>(tokens) + static_cast<size_t>(std::max(ids[i], 0));
        EXPECT_NEAR(losses[i], ids[i] < 0 ? 0 : -std::log(scores[at]), 1e-10)
            << name << ' ' << tokens;
        mean += losses[i] / 11;
      }
      EXPECT_NEAR(head.loss(Var(outputs), targets).value().item(), mean, 1e-12) << name;
    }
}

// Before training every level is near one of the means: none costs two nats more than if all were
// alike. The first and the last include what is beyond them.
TEST(OutputHead, LogisticsStartNearEqualLevels) {
  for (const bool bias : {true, false})
    for (const int64_t levels : {4, 16, 256}) {
      ModelConfig config = small("logistics", levels);
      config.bias = bias;
      const Transformer model(config);
      const Tensor ids = some_tokens(4, levels, 1);
      const std::vector<double> scores =
          model.output_head().scores(model.forward(ids, false).value()).to_doubles();
      const double equal = -std::log(static_cast<double>(levels));
      for (const double score : scores)
        EXPECT_GT(score, equal - 2) << levels << " levels, bias " << bias;
    }
}

TEST(OutputHead, AModelTrainsWithLogistics) {
  const int64_t levels = 64;
  Transformer model(small("logistics", levels));
  const Tensor ids = some_tokens(8, levels, 3);
  const auto loss = [&] {
    return model.output_head().loss(model.forward(ids, true), ids);
  };  // to say what it reads
  const double before = loss().value().item();
  Optimizer optimizer(OptimizerConfig{}, model.parameters());
  for (int step = 0; step < 150; ++step) {
    backward(loss());
    optimizer.step(0.01);
  }
  EXPECT_LT(loss().value().item(), before - 1);
}

TEST(OutputHead, TheGeneratorSamplesTheLogistics) {
  const int64_t levels = 5;
  ModelConfig config = small("logistics", levels);
  const Transformer model(config);
  DecodeState state = model.start(1);
  const Tensor outputs = model.step(state, Tensor::from<int32_t>({levels}, {1}));
  ASSERT_EQ(outputs.shape(), (Shape{1, 30}));
  const std::vector<double> scores = model.output_head().scores(outputs).to_doubles();
  const size_t samples = 20000;
  std::vector<double> counts(levels);
  SamplingOptions options;
  for (const auto& row :
       sample_tokens(model, options, std::vector<std::vector<int32_t>>(samples, {levels}), 1))
    ++counts.at(static_cast<size_t>(row[0]));
  for (size_t s = 0; s < counts.size(); ++s) {
    const double p = std::exp(scores[s]), n = static_cast<double>(samples);
    EXPECT_NEAR(counts[s], n * p, 5 * std::sqrt(n * p * (1 - p))) << s;
  }
  options.greedy = true;
  const std::vector<int32_t> likeliest =
      ops::argmax(model.output_head().scores(outputs)).to_vector<int32_t>();
  EXPECT_EQ(sample_tokens(model, options, {{levels}}, 1)[0], likeliest);
  options.greedy = false;
  options.top_k = 1;
  EXPECT_EQ(sample_tokens(model, options, {{levels}}, 1)[0], likeliest);
  options.top_k = 0;
  options.top_p = 1e-6;
  EXPECT_EQ(sample_tokens(model, options, {{levels}}, 1)[0], likeliest);
}

TEST(OutputHead, RefusesInvalidOptions) {
  expect_error(ErrorKind::usage, {"`output_head` is 'gauss'", "categorical", "logistics"},
               [] { OutputHead("gauss", 4); });
  expect_error(ErrorKind::usage, {"`output_head` logistics", "2 levels"},
               [] { OutputHead("logistics", 1); });
  ModelConfig tied = small("logistics", 4);
  tied.tie = true;
  expect_error(ErrorKind::usage, {"`tie`", "`output_head` logistics"},
               [&] { Transformer model(tied); });
}

}  // namespace
}  // namespace linea

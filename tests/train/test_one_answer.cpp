// Tasks with one answer: what a model may read, what its loss depends on, and what is scored.
#include "autograd/ops.h"
#include "data/tasks/listops_task.h"
#include "nn/model.h"
#include "tests/cli/program.h"
#include "tests/expect_error.h"
#include "train/evaluate.h"
#include "train/run/batches.h"

namespace linea {
namespace {

RunConfig answering(const std::string& attention) {
  RunConfig config;
  config.task = "listops";
  config.task_settings = {
      {"listops_depth", 4}, {"listops_args", 4}, {"listops_min", 6}, {"listops_max", 40}};
  config.attention = attention;
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 32;
  return config;
}

std::unique_ptr<Model> model_of(const RunConfig& config) {
  return make_model(model_config(config, task_shape(task_options(config, ""))));
}

struct LossAndGradients {
  double loss;
  std::vector<std::vector<double>> gradients;
};
LossAndGradients of_batch(const RunConfig& config, const Batch& batch) {
  const std::unique_ptr<Model> model = model_of(config);
  const auto task = make_task(task_options(config, ""));
  const BatchTensors tensors = batch_tensors(*task, batch);
  const Var loss =
      model->output_head().loss(model->forward(tensors.model_inputs(), true), tensors.targets);
  LossAndGradients result{loss.value().to_doubles()[0], {}};
  backward(loss);
  for (const Parameter& parameter : model->parameters())
    result.gradients.push_back(parameter.var.grad().to_doubles());
  return result;
}

Batch some_sequences(const RunConfig& config) {
  return make_task(task_options(config, ""))->train_rows(1, 0, 4);
}

// `batch` with other tokens behind the answers.
Batch with_other_padding(Batch batch) {
  for (int64_t row = 0; row < batch.rows; ++row)
    for (int64_t t = batch.lengths[static_cast<size_t>(row)]; t < batch.length; ++t)
      batch.inputs[static_cast<size_t>(row * batch.length + t)] = static_cast<int32_t>(t % 15);
  return batch;
}

const char* const kBoth[] = {"softmax",
                             "linear",
                             "performer",
                             "lsh:window=8",
                             "topk:keys=4",
                             "softmax/linear",
                             "sparse:pattern={band:4+global:2}"};

TEST(OneAnswer, ReadsBothWaysWhereTheAttentionCan) {
  for (const char* attention : kBoth) {
    RunConfig config = answering(attention);
    const TaskShape shape = task_shape(task_options(config, ""));
    EXPECT_FALSE(model_config(config, shape).causal) << attention;
    config.mask = "causal";
    EXPECT_TRUE(model_config(config, shape).causal) << attention;
  }
  for (const char* attention : {"linear:rule=gated", "linear:rule=delta", "softmax/gdn"}) {
    const RunConfig config = answering(attention);
    EXPECT_TRUE(model_config(config, task_shape(task_options(config, ""))).causal) << attention;
  }
  RunConfig copy = answering("softmax");
  copy.task = "copy";
  copy.task_settings = {};
  EXPECT_TRUE(model_config(copy, task_shape(task_options(copy, ""))).causal);
}

TEST(OneAnswer, PaddingChangesNoBit) {
  for (const char* attention : kBoth)
    for (const char* mask : {"auto", "causal"}) {
      RunConfig config = answering(attention);
      config.mask = mask;
      const Batch batch = some_sequences(config), other = with_other_padding(batch);
      EXPECT_NE(batch.inputs, other.inputs);
      const auto [loss, gradients] = of_batch(config, batch);
      const auto [other_loss, other_gradients] = of_batch(config, other);
      EXPECT_EQ(loss, other_loss) << attention << ", mask " << mask;
      // The gradients of some are summed in another scale.
      double largest = 0, difference = 0;
      for (size_t i = 0; i < gradients.size(); ++i)
        for (size_t j = 0; j < gradients[i].size(); ++j) {
          largest = std::max(largest, std::abs(gradients[i][j]));
          difference = std::max(difference, std::abs(gradients[i][j] - other_gradients[i][j]));
        }
      EXPECT_LE(difference, 1e-6 * largest) << attention << ", mask " << mask;
    }
}

// In a model that reads both ways the last expression's token changes the first row; a causal model
// reads it after the rows before.
TEST(OneAnswer, CausalRowsDoNotReadOn) {
  for (const char* attention : kBoth)
    for (const char* mask : {"auto", "causal"}) {
      RunConfig config = answering(attention);
      config.mask = mask;
      const std::unique_ptr<Model> model = model_of(config);
      const auto task = make_task(task_options(config, ""));
      Batch batch = some_sequences(config);
      const auto first_outputs = [&] {
        const Tensor all =
            model->forward(batch_tensors(*task, batch).model_inputs(), false).value();
        std::vector<double> rows = all.rows(0, 1).to_doubles();
        rows.resize(static_cast<size_t>(4 * all.size(2)));
        return rows;
      };
      const std::vector<double> before = first_outputs();
      for (int32_t t = 4; t < batch.lengths[0]; ++t) batch.inputs[static_cast<size_t>(t)] = t % 10;
      EXPECT_EQ(before == first_outputs(), config.mask == "causal")
          << attention << ", mask " << mask;
    }
}

TEST(OneAnswer, RecomputedAndReversibleBlocksHaveTheMask) {
  for (const char* attention : {"softmax", "linear", "lsh:window=8", "softmax/linear"}) {
    RunConfig config = answering(attention);
    const Batch batch = some_sequences(config);
    const auto [loss, gradients] = of_batch(config, batch);
    config.recompute = true;
    const auto [again, recomputed] = of_batch(config, batch);
    EXPECT_EQ(loss, again) << attention;
    EXPECT_EQ(gradients, recomputed) << attention;
    config.recompute = false;
    config.reversible = true;
    const auto [reversible, unused] = of_batch(config, batch);
    EXPECT_EQ(reversible, of_batch(config, with_other_padding(batch)).loss) << attention;
    config.mask = "causal";
    EXPECT_NE(reversible, of_batch(config, batch).loss) << attention;
  }
}

TEST(OneAnswer, WhatMakesNoSenseIsRefused) {
  RunConfig config = answering("softmax");
  config.tie = true;
  expect_error(ErrorKind::usage, {"`tie`", "listops"}, [&] { model_of(config); });
  config.tie = false;
  config.output_head = "logistics";
  expect_error(ErrorKind::usage, {"`output_head` logistics"}, [&] { model_of(config); });
  config.output_head = "categorical";
  expect_error(ErrorKind::usage, {"does not sample", "`mask` causal"},
               [&] { model_of(config)->start(1); });
}

TEST(OneAnswer, EvaluationCountsAnswersAndTheCommonestClass) {
  const RunConfig config = answering("softmax");
  const auto task = make_task(task_options(config, ""));
  const std::unique_ptr<Model> model = model_of(config);
  const Score score = evaluate(*model, *task, Split::val, 16, 500);
  EXPECT_EQ(score.tokens, 500);
  std::array<int64_t, 10> counts{};
  for (int64_t row = 0; row < 500; ++row)
    for (const int32_t target : task->eval_batch(Split::val, row * 4, 1).targets)
      if (target != kNotScored) ++counts.at(static_cast<size_t>(target));
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  EXPECT_EQ(score.majority, most / 500);
  EXPECT_NEAR(evaluate(*model, *task, Split::val, 64, 500).loss, score.loss, 1e-6);
  RunConfig copy = config;
  copy.task = "copy";
  copy.task_settings = {};
  EXPECT_EQ(
      evaluate(*model_of(copy), *make_task(task_options(copy, "")), Split::val, 8, 8).majority, 0);
}

}  // namespace
}  // namespace linea

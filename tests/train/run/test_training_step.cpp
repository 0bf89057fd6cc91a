// What a step of training is: its loss is the head's, its gradients are those of the mean of its
// batches, and an update that cannot be made leaves nothing behind.
#include "nn/transformer.h"
#include "train/run/training_step.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/ops.h"
#include "tests/cli/program.h"
#include "tests/nn/attention_options.h"
#include "train/evaluate.h"

namespace linea {
namespace {

RunConfig small(const std::string& attention, const std::string& head) {
  RunConfig config;
  config.task = "digits";
  config.task_settings = {{"size", 12}, {"levels", 8}};
  config.attention = attention;
  config.output_head = head;
  config.attention_settings = declared_only(attention, {{"codes", 4}});
  config.layers = 1;
  config.heads = 2;
  config.dim = config.ffn = 8;
  config.batch = 3;
  return config;
}

// Few, and made once.
const Task* digits(const RunConfig& config) {
  TaskOptions options = task_options(config, "");
  options.settings["examples"] = 40;
  static const std::unique_ptr<Task> task = make_task(options);
  return task.get();
}

struct SmallRun {
  explicit SmallRun(const RunConfig& settings)
      : config(settings),
        task(digits(config)),
        model(model_config(config, task->shape())),
        optimizer(optimizer_config(config), model.parameters()),
        step(model, optimizer, *task, config) {
    model.before_step(0, config.steps);
  }
  std::vector<std::vector<double>> gradients() const {
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model.parameters())
      all.push_back(parameter.var.grad().defined() ? parameter.var.grad().to_doubles()
                                                   : std::vector<double>());
    return all;
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model.parameters())
      all.push_back(parameter.var.value().to_doubles());
    return all;
  }

  std::vector<uint32_t> bits() const {  // NaN equals itself
    std::vector<uint32_t> all;
    for (const Parameter& parameter : model.parameters())
      for (const float x : parameter.var.value().to_vector<float>()) {
        all.emplace_back();
        std::memcpy(&all.back(), &x, sizeof x);
      }
    return all;
  }

  RunConfig config;
  const Task* task;
  Transformer model;
  Optimizer optimizer;
  TrainingStep step;
};

// The mean over both batches of the head's loss and of what the attention adds, written out.
TEST(TrainingStep, IsTheMeanOfItsMicroBatches) {
  for (const std::string attention : {"linear", "vq"})
    for (const std::string head : {"categorical", "logistics"}) {
      RunConfig config = small(attention, head);
      config.accumulate = 2;
      SmallRun run(config), definition(config);
      const double loss = run.step.add_gradients(5).item();
      double expected = 0;
      for (const uint64_t number : {10u, 11u}) {
        context().step->seed = 1;
        context().step->step = number;
        const Batch batch = definition.task->train_rows(1, number * 3, 3);
        const BatchTensors tokens = batch_tensors(*definition.task, batch);
        Var added;
        const Var outputs = definition.model.forward(tokens.inputs, true, &added);
        const Var own = definition.model.output_head().loss(outputs, tokens.targets);
        EXPECT_EQ(added.defined(), attention == "vq");
        backward(scale(added.defined() ? add(own, added) : own, 0.5));
        expected += 0.5 * own.value().item();
      }
      EXPECT_NEAR(loss, expected, 1e-6) << attention << " " << head;
      const auto found = run.gradients(), wanted = definition.gradients();
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(found[i].size(), wanted[i].size()) << run.model.parameters()[i].name;
        ASSERT_FALSE(wanted[i].empty());
        for (size_t j = 0; j < wanted[i].size(); ++j)
          ASSERT_NEAR(found[i][j], wanted[i][j], 1e-5)
              << attention << " " << head << " " << run.model.parameters()[i].name;
      }
    }
}

// The mean loss of the last ten of 100 steps.
double loss_of_hundred_steps(const std::string& optimizer) {
  RunConfig config = small("linear", "categorical");
  config.optimizer = optimizer;
  config.layers = 2;
  config.dim = 32;
  config.ffn = 64;
  config.steps = 100;
  config.lr = 3e-3;
  config.warmup = 10;
  SmallRun run(config);
  double sum = 0;
  for (int64_t i = 0; i < config.steps; ++i) {
    run.model.before_step(i, config.steps);
    const double rate = learning_rate_at(i, config.steps, config.warmup, config.lr, config.min_lr);
    const StepResult result = run.step.run(i, rate);
    EXPECT_TRUE(result.updated);
    if (i >= config.steps - 10) sum += result.loss / 10;
  }
  return sum;
}

TEST(TrainingStep, MuonLearnsDigitsInFewerStepsThanAdamW) {
  EXPECT_LT(loss_of_hundred_steps("muon"), 0.95 * loss_of_hundred_steps("adamw"));
}

TEST(TrainingStep, SkippedUpdatesAreNotAveraged) {
  SmallRun run(small("linear", "categorical"));
  WeightAverage average(run.model, 0.9);
  run.step.average_in(&average);
  const auto values = [&] {
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : average.model().parameters())
      all.push_back(parameter.var.value().to_doubles());
    return all;
  };
  const auto start = run.values();
  EXPECT_FALSE(run.step.run(0, 0.1, {1e-9, 0}).updated);
  EXPECT_EQ(average.updates(), 0);
  EXPECT_EQ(values(), start);
  EXPECT_TRUE(run.step.run(1, 0.1).updated);
  EXPECT_EQ(average.updates(), 1);
  const auto now = run.values(), found = values();
  for (size_t p = 0; p < now.size(); ++p)
    for (size_t i = 0; i < now[p].size(); ++i)  // the first decay is 1/10
      EXPECT_NEAR(found[p][i], 0.1 * start[p][i] + 0.9 * now[p][i], 1e-6);
}

TEST(TrainingStep, WatchersAreNotifiedInOrder) {
  RunConfig config = small("linear", "categorical");
  config.accumulate = 2;
  SmallRun run(config);
  std::string heard;
  run.step.watch({[&] { heard += "d"; }, [&] { heard += "f"; }, [&] { heard += "b"; }});
  run.step.run(0, 1e-3);
  EXPECT_EQ(heard, "dfbdfb");
}

TEST(TrainingStep, AnInterruptedStepLeavesNoTrace) {
  struct Interrupted {};
  for (const std::string attention : {"linear", "vq"}) {
    RunConfig config = small(attention, "categorical");
    config.accumulate = 3;
    SmallRun run(config), straight(config);
    int64_t batches = 0;
    run.step.interrupt_by([&] {
      if (++batches == 2) throw Interrupted();
    });
    const auto before = run.bits();
    EXPECT_THROW(run.step.run(0, 1e-3), Interrupted);
    EXPECT_EQ(run.bits(), before);
    EXPECT_EQ(run.optimizer.updates(), 0);
    for (const Parameter& parameter : run.model.parameters())
      EXPECT_FALSE(parameter.var.grad().defined()) << parameter.name;
    run.step.run(0, 1e-3);
    straight.step.run(0, 1e-3);
    EXPECT_EQ(batches, 4);
    EXPECT_EQ(run.bits(), straight.bits()) << attention;
    const auto buffers = run.model.buffers(), expected = straight.model.buffers();
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(buffers[i].tensor.to_doubles(), expected[i].tensor.to_doubles())
          << expected[i].name;
  }
}

TEST(TrainingStep, AFailedUpdateLeavesNoTrace) {
  SmallRun run(small("linear", "categorical"));
  Tensor first = run.model.parameters()[0].var.value();
  const float kept = first.data<float>()[0];
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    first.data<float>()[0] = bad;
    const auto before = run.bits();
    const StepResult result = run.step.run(0, 1e-3);
    EXPECT_FALSE(result.updated);
    EXPECT_FALSE(std::isfinite(result.loss));
    EXPECT_EQ(result.gradient_norm, 0);
    EXPECT_EQ(run.bits(), before);
    EXPECT_EQ(run.optimizer.updates(), 0);
  }
  first.data<float>()[0] = kept;
  const auto before = run.values();
  EXPECT_TRUE(run.step.run(0, 1e-3).updated) << "gradients of skipped updates are gone";
  EXPECT_NE(run.values(), before);
}

// The guard's limits are the same rule; a callback that is notified of a skip still sees the
// gradients.
TEST(TrainingStep, AnUpdateBeyondItsLimitsIsReportedAndSkipped) {
  SmallRun run(small("linear", "categorical"));
  const auto before = run.values();
  std::vector<double> told;
  const auto skipping = [&](const StepResult& result) {
    EXPECT_FALSE(result.updated);
    told.push_back(result.gradient_norm);
    EXPECT_TRUE(run.model.parameters()[0].var.grad().defined());
  };
  const double loss = SmallRun(run.config).step.run(0, 1e-3).loss;
  EXPECT_EQ(run.step.run(0, 1e-3, {loss / 2, 0}, skipping).loss, loss);
  EXPECT_EQ(told, std::vector<double>{0});
  EXPECT_FALSE(run.model.parameters()[0].var.grad().defined());
  EXPECT_FALSE(run.step.run(0, 1e-3, {0, 1e-9}, skipping).updated);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1], run.optimizer.gradient_norm());
  EXPECT_GT(told[1], 0);
  EXPECT_EQ(run.values(), before);
  EXPECT_TRUE(run.step.run(0, 1e-3, {2 * loss, 1e9}, skipping).updated);
  EXPECT_EQ(told.size(), 2u);
  EXPECT_NE(run.values(), before);
}

}  // namespace
}  // namespace linea

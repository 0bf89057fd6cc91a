// What a step of training is: its loss is the head's, its gradients are those of the mean of its batches, and an
// update that cannot be made leaves nothing behind.
#include "train/training_step.h"

#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "tests/train/program.h"
#include "train/evaluate.h"

namespace linea {
namespace {

RunConfig small(const std::string& attention, const std::string& head) {
  RunConfig config;
  config.task = "digits";
  config.size = 12;
  config.levels = 8;
  config.attention = attention;
  config.head = head;
  config.codes = 4;
  config.layers = 1;
  config.heads = 2;
  config.dim = config.ffn = 8;
  config.batch = 3;
  return config;
}

// Few, and made once.
const Task* digits(const RunConfig& config) {
  TaskOptions options = task_options(config, "");
  options.count = 40;
  static const std::unique_ptr<Task> task = make_task(options);
  return task.get();
}

struct SmallRun {
  explicit SmallRun(const RunConfig& settings)
      : config(settings),
        task(digits(config)),
        model(model_config(config, task->shape())),
        optimizer(optimizer_config(config), model.parameters()) {
    model.before_step(0, config.steps);
  }
  std::vector<std::vector<double>> gradients() const {
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model.parameters())
      all.push_back(parameter.var.grad().defined() ? parameter.var.grad().to_doubles() : std::vector<double>());
    return all;
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : model.parameters()) all.push_back(parameter.var.value().to_doubles());
    return all;
  }

  RunConfig config;
  const Task* task;
  Transformer model;
  Optimizer optimizer;
};

// The mean over both batches of the head's loss and of what the attention adds, written out.
TEST(TrainingStep, IsTheMeanOfItsBatches) {
  for (const std::string attention : {"linear", "vq"})
    for (const std::string head : {"categorical", "logistics"}) {
      RunConfig config = small(attention, head);
      config.accumulate = 2;
      SmallRun step(config), definition(config);
      const double loss = accumulate_gradients(step.model, *step.task, config, 5);
      double expected = 0;
      for (const uint64_t number : {10u, 11u}) {
        context().step->seed = 1;
        context().step->step = number;
        const Batch batch = definition.task->train_batch(1, number, 3);
        Var added;
        const Var outputs = forward_batch(definition.model, *definition.task, batch, true, &added);
        const Var own = definition.model.head().loss(outputs, Tensor::from(batch.targets, {3, 144}));
        EXPECT_EQ(added.defined(), attention == "vq");
        backward(scale(added.defined() ? add(own, added) : own, 0.5));
        expected += 0.5 * own.value().item();
      }
      EXPECT_NEAR(loss, expected, 1e-6) << attention << " " << head;
      const auto found = step.gradients(), wanted = definition.gradients();
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(found[i].size(), wanted[i].size()) << step.model.parameters()[i].name;
        ASSERT_FALSE(wanted[i].empty());
        for (size_t j = 0; j < wanted[i].size(); ++j)
          ASSERT_NEAR(found[i][j], wanted[i][j], 1e-5)
              << attention << " " << head << " " << step.model.parameters()[i].name;
      }
    }
}

TEST(TrainingStep, WatchersHearOfEachBatchInOrder) {
  RunConfig config = small("linear", "categorical");
  config.accumulate = 2;
  const SmallRun run(config);
  std::string heard;
  accumulate_gradients(run.model, *run.task, config, 0, {[&] { heard += "d"; }, [&] { heard += "f"; }});
  EXPECT_EQ(heard, "dfdf");
}

TEST(TrainingStep, AnUpdateThatCannotBeMadeLeavesNoTrace) {
  SmallRun run(small("linear", "categorical"));
  const auto before = run.values();
  const auto step = [&] { return accumulate_gradients(run.model, *run.task, run.config, 0); };
  step();
  EXPECT_FALSE(update_or_skip(run.model, run.optimizer, std::nan(""), 1e-3)) << "a loss that is not finite";
  EXPECT_EQ(run.values(), before);
  const double loss = step();
  Tensor first = run.model.parameters()[0].var.grad();
  first.data<float>()[0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(update_or_skip(run.model, run.optimizer, loss, 1e-3)) << "a gradient that is not finite";
  EXPECT_EQ(run.values(), before);
  EXPECT_TRUE(update_or_skip(run.model, run.optimizer, step(), 1e-3)) << "gradients of skipped updates are gone";
  EXPECT_NE(run.values(), before);
}

// The guard's limits are the same rule; who is told of a skip sees the gradients still.
TEST(TrainingStep, AnUpdatePastItsLimitsIsToldAndSkipped) {
  SmallRun run(small("linear", "categorical"));
  const auto before = run.values();
  const auto step = [&] { return accumulate_gradients(run.model, *run.task, run.config, 0); };
  std::vector<double> told;
  const auto skipping = [&](double norm) {
    told.push_back(norm);
    EXPECT_TRUE(run.model.parameters()[0].var.grad().defined());
  };
  const double loss = step();
  EXPECT_FALSE(update_or_skip(run.model, run.optimizer, loss, 1e-3, {loss / 2, 0}, skipping));
  EXPECT_EQ(told, std::vector<double>{0});
  EXPECT_FALSE(run.model.parameters()[0].var.grad().defined());
  EXPECT_FALSE(update_or_skip(run.model, run.optimizer, step(), 1e-3, {0, 1e-9}, skipping));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1], run.optimizer.gradient_norm());
  EXPECT_GT(told[1], 0);
  EXPECT_EQ(run.values(), before);
  EXPECT_TRUE(update_or_skip(run.model, run.optimizer, step(), 1e-3, {2 * loss, 1e9}, skipping));
  EXPECT_EQ(told.size(), 2u);
  EXPECT_NE(run.values(), before);
}

}  // namespace
}  // namespace linea

// Looking at a split: no more memory than training takes, and the same score however many rows are
// taken at once.
#include "train/evaluate.h"

#include <algorithm>
#include <numeric>

#include "nn/transformer.h"
#include "tensor/caching_allocator.h"
#include "tests/cli/program.h"
#include "tests/data/data_helpers.h"
#include "tests/nn/attention_options.h"
#include "tests/sanitized.h"
#include "tests/train/first_rows.h"
#include "train/run/training_step.h"

namespace linea {
namespace {

RunConfig small(const std::string& attention, int64_t length, int64_t dim, int64_t layers) {
  RunConfig config;
  config.task = "copy";
  config.attention = attention;
  config.task_settings = {{"length", length}};
  config.layers = layers;
  config.heads = 2;
  config.dim = dim;
  config.ffn = 4 * dim;
  config.attention_settings = declared_only(attention, {{"features", 16}, {"codes", 16}});
  config.batch = 1;
  config.threads = 1;
  return config;
}

// The most that `work` holds.
template <typename Work>
size_t peak_of(const Work& work) {
  cpu_allocator().reset_peak();
  work();
  return cpu_allocator().use().peak;
}

TEST(Evaluate, TakesNoMoreMemoryThanTraining) {
  const int threads = context().threads;
  for (const std::string attention : {"linear", "softmax", "performer", "vq"})
    for (const int64_t length : {16, 64, 1024})
      for (const int64_t dim : {16, 64}) {
        const RunConfig config = small(attention, length, dim, 2);
        set_threads(1);
        const std::unique_ptr<Task> task = make_task(task_options(config, ""));
        Transformer model(model_config(config, task->shape()));
        Optimizer optimizer(optimizer_config(config), model.parameters());
        const size_t training = peak_of([&] {
          model.before_step(0, config.steps);
          TrainingStep(model, optimizer, *task, config).run(0, 1e-3);
        });
        const int64_t rows =
            2 * evaluation_rows(model, *task, config.batch);  // a look at more holds no more
        const size_t looking =
            peak_of([&] { evaluate(model, *task, Split::val, config.batch, rows); });
        EXPECT_LE(looking, training)
            << attention << ", length " << length << ", dim " << dim << ": "
            << evaluation_rows(model, *task, config.batch) << " rows at once";
      }
  set_threads(threads);
}

TEST(Evaluate, UsesABatchOfRowsOrWhatFits) {
  const auto rows_for = [](const RunConfig& config, int64_t batch) {
    const std::unique_ptr<Task> task = make_task(task_options(config, ""));
    return evaluation_rows(Transformer(model_config(config, task->shape())), *task, batch);
  };
  EXPECT_EQ(rows_for(small("linear", 64, 8, 1), 1), 1) << "a small model: one at a time";
  EXPECT_EQ(rows_for(small("linear", 64, 8, 1), 20), 20);
  EXPECT_EQ(rows_for(small("linear", 64, 8, 1), 1000000), 256) << "no more than 16384 tokens";
  EXPECT_EQ(rows_for(small("linear", 32768, 8, 1), 4), 1);
  EXPECT_GE(rows_for(small("linear", 16, 128, 2), 1), 4) << "gradients are large";
}

TEST(Evaluate, ScoresDoNotDependOnTheNumberOfRows) {
  const RunConfig config = small("linear", 16, 8, 1);
  const std::unique_ptr<Task> task = make_task(task_options(config, ""));
  const Transformer model(model_config(config, task->shape()));
  const Score one = evaluate(model, *task, Split::val, 1, 50),
              many = evaluate(model, *task, Split::val, 64, 50);
  EXPECT_NEAR(one.loss, many.loss, 1e-6);
  EXPECT_EQ(one.accuracy, many.accuracy);
  EXPECT_EQ(one.tokens, many.tokens);
}

TEST(Evaluate, APartialEvaluationSpansTheSplit) {
  for (const std::string name : {"copy", "retrieval"}) {  // retrieval reads a second stream
    RunConfig config = small("linear", 16, 8, 1);
    config.task = name;
    if (name == "retrieval") {
      config.task_settings = {};
      config.heads = 1;
    }
    const std::unique_ptr<Task> task = make_task(task_options(config, ""));
    const Transformer model(model_config(config, task->shape()));
    const FirstRows eleven(*task, 11);
    const Score part = evaluate(model, eleven, Split::val, 3, 4);
    EXPECT_EQ(eleven.asked, (std::vector<int64_t>{0, 2, 5, 8})) << name;
    double loss = 0;
    int64_t tokens = 0;
    for (const int64_t row : {0, 2, 5, 8}) {
      const Batch batch = task->eval_batch(Split::val, row, 1);
      const BatchTensors tensors = batch_tensors(*task, batch);
      const Tensor outputs = model.forward(tensors.model_inputs(), false).value();
      const Tensor losses = model.output_head().losses(outputs, tensors.targets);
      const std::vector<float> values = losses.to_vector<float>();
      for (size_t i = 0; i < values.size(); ++i)
        if (batch.targets[i] != kNotScored) {
          loss += values[i];
          ++tokens;
        }
    }
    EXPECT_EQ(part.tokens, tokens) << name;
    EXPECT_NEAR(part.loss, loss / static_cast<double>(tokens), 1e-5) << name;
    eleven.asked.clear();
    evaluate(model, eleven, Split::val, 3, 12);
    EXPECT_EQ(eleven.asked, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})) << name;
  }
}

class EvaluateText : public DataTest {
 protected:
  // The loss of each token of the validation split by the recurrent form.
  static std::vector<double> losses_of_steps(const Model& model, const Task& task) {
    std::vector<double> losses;
    DecodeState state = model.start(1);
    for (int64_t row = 0; row < task.rows(Split::val); ++row) {
      const Batch batch = task.eval_batch(Split::val, row, 1);
      for (size_t n = 0; n < batch.targets.size() && batch.targets[n] != kNotScored; ++n) {
        const Tensor outputs =
            model.step(state, Tensor::from(std::vector<int32_t>{batch.inputs[n]}, {1}));
        losses.push_back(model.output_head()
                             .losses(outputs.reshape({1, 1, outputs.numel()}),
                                     Tensor::from(std::vector<int32_t>{batch.targets[n]}, {1, 1}))
                             .to_doubles()[0]);
      }
    }
    return losses;
  }
  static double mean(const std::vector<double>& values, int64_t first, int64_t end) {
    return std::accumulate(values.begin() + first, values.begin() + end, 0.0) /
           static_cast<double>(end - first);
  }
};

// A state that is carried through a split in parts, of which the last is shorter, gives each token what the
// recurrent form gives it.
TEST_F(EvaluateText, CarriesAStateAsTheRecurrentFormDoes) {
  std::string text;
  for (int i = 0; i < (kSanitized ? 5000 : 9500); ++i)
    text += fmt::format("{} is {}. ", i % 97, i * i % 89);
  const std::string file = put("t.txt", text);
  for (const std::string& attention :
       share_of(std::vector<std::string>{"linear", "performer", "gdn"}, 3)) {
    RunConfig config = small(attention, 16, 16, 2);
    config.task = "text";
    config.task_settings = {{"length", 48}, {"data", file}};
    config.positions = "none";
    config.layer_convolution = "1d";
    const std::unique_ptr<Task> task = make_task(task_options(config, ""));
    const Transformer model(model_config(config, task->shape()));
    for (const Parameter& parameter : model.parameters()) {  // so that what came before matters
      std::vector<double> values = parameter.var.value().to_doubles();
      if (parameter.var.shape().rank() == 2)
        for (double& x : values) x *= 10;
      write_values(values, parameter.var.value());
    }
    const Score carried = evaluate_carried(model, *task, Split::val);
    const std::vector<double> losses = losses_of_steps(model, *task);
    const auto tokens = std::ssize(losses);
    EXPECT_EQ(carried.tokens, tokens);
    EXPECT_GT(tokens, kSanitized ? 4096 : 2 * 4096);  // two parts, or three
    EXPECT_NEAR(carried.loss, mean(losses, 0, tokens), 1e-6) << attention;
    for (int64_t s = 0, first = 0, end = 48; first < tokens; ++s, first = end, end *= 2) {
      const Stretch stretch = carried.stretches.at(static_cast<size_t>(s));
      EXPECT_EQ(stretch.tokens, std::min(end, tokens) - first) << attention << " " << s;
      EXPECT_NEAR(stretch.loss, mean(losses, first, std::min(end, tokens)), 1e-5) << attention;
    }
    const Score windows = evaluate(model, *task, Split::val, 1);
    ASSERT_EQ(windows.stretches.size(), carried.stretches.size());
    EXPECT_NEAR(windows.stretches[0].loss, carried.stretches[0].loss, 1e-5);
    EXPECT_TRUE(evaluate(model, *task, Split::val, 1, 5).stretches.empty());
    EXPECT_EQ(windows.tokens, tokens);
    EXPECT_GT(std::abs(windows.loss - carried.loss), 1e-3);
  }
}

TEST_F(EvaluateText, CarriesNoStateThatModelsDoNotHave) {
  RunConfig config = small("linear", 16, 16, 1);
  const std::unique_ptr<Task> copy = make_task(task_options(config, ""));
  const Transformer of_copy(model_config(config, copy->shape()));
  expect_error(ErrorKind::usage, {"this is none"},
               [&] { evaluate_carried(of_copy, *copy, Split::val); });
  const std::string file = put("t.txt", std::string(2000, 'a'));
  config.task = "text";
  config.task_settings = {{"length", 16}, {"data", file}};
  const std::unique_ptr<Task> task = make_task(task_options(config, ""));
  const Transformer with_positions(model_config(config, task->shape()));
  config.positions = "none";
  config.attention = "softmax";
  config.attention_settings = {};
  const Transformer softmax(model_config(config, task->shape()));
  for (const Transformer* model : {&with_positions, &softmax})
    expect_error(ErrorKind::usage, {"models without positions", "--positions none"},
                 [&] { evaluate_carried(*model, *task, Split::val); });
}

}  // namespace
}  // namespace linea

// Looking at a split: no more memory than training takes, and the same score however many rows are
// taken at once.
#include "nn/transformer.h"
#include "train/evaluate.h"

#include "tensor/caching_allocator.h"
#include "tests/cli/program.h"
#include "tests/nn/attention_options.h"
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

}  // namespace
}  // namespace linea

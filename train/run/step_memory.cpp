#include "train/run/step_memory.h"

#include <algorithm>

#include "train/model_file.h"
#include "train/run/out_of_memory_hint.h"
#include "train/run/training_step.h"
#include "train/timing.h"

namespace linea {
namespace {

// Tokens that Task::train_rows makes, of which the device has copies.
size_t host_batch_bytes(const Task& task, int64_t rows) {
  if (context().device.kind != DeviceKind::cpu) return 0;  // a device has memory of its own
  const int64_t streams = task.shape().second_vocab_size > 0 ? 3 : 2;
  return static_cast<size_t>(streams * rows * task.length()) * sizeof(int32_t);
}

// Limits of the smallest steps, which may take about a second.
constexpr double kMaxFlops = 2e10, kMaxFlopsOfGpu = 2e13;
// An extrapolation may be too large: from one and two rows by the factor kGross at most, from
// enough rows and tokens by kMargin.
constexpr double kGross = 4, kMargin = 1.1;
constexpr int64_t kEnoughRows = 32, kEnoughTokens = 4096;

// Bytes at the peak of a step, beyond weights and moments, by its rows.
struct Growth {
  double fixed, per_row;
};

double weight_bytes(const ModelConfig& model) {
  double elements = 0;
  for (const WeightCount& count : count_weights(model)) elements += count.elements;
  return 4 * elements;
}

// With the average of the weights.
double moment_bytes(const RunConfig& config, const ModelConfig& model) {
  double elements = 0;
  for (const WeightCount& count : count_weights(model)) {
    Parameter parameter;
    parameter.matrices = count.matrices ? 1 : 0;
    elements +=
        count.elements * ((trains_as_matrices(optimizer_config(config), parameter) ? 1 : 2) +
                          (config.ema > 0 ? 1 : 0));
  }
  return 4 * elements;
}

size_t to_bytes(double x) { return static_cast<size_t>(std::clamp(x, 0.0, 1e18)); }

MemoryParts parts_of(const RunConfig& config, const ModelConfig& model, double activations) {
  MemoryParts parts;
  parts.parameters = parts.gradients = to_bytes(weight_bytes(model));
  parts.optimizer = to_bytes(moment_bytes(config, model));
  parts.activations = to_bytes(activations);
  return parts;
}

// FLOPs of three rows: 6 for each weight, and those of softmax.
double smallest_steps(ModelConfig model) {
  const auto round = static_cast<int64_t>(model.attentions.size());
  model.layers = std::min(model.layers, 2 * round);
  const auto N = static_cast<double>(model.length);
  return 3 * N * (6 * weight_bytes(model) / 4 + 24 * N * static_cast<double>(model.dim));
}

// Several times what a token of training can take.
double token_bytes(const ModelConfig& model) {
  const int64_t block = 40 * model.dim + 8 * model.ffn + model.heads * model.length;
  return 4 * (static_cast<double>(model.layers) * static_cast<double>(block) +
              8 * static_cast<double>(model.vocab_size + model.dim));
}

// From steps of rows / 2 and of `rows` rows of a model with `layers` layers.
Growth measure_growth(RunConfig config, const Task& task, int64_t layers, int64_t rows) {
  config.layers = layers;
  config.skip_blank = false;  // other images may have no position to skip
  const std::unique_ptr<Model> model = make_model(model_config(config, task.shape()));
  Optimizer optimizer(optimizer_config(config), model->parameters());
  const auto peak = [&](int64_t of_rows) {
    const int64_t batches = std::min<int64_t>(config.accumulate, 2);
    return static_cast<double>(
        measure_step(*model, optimizer, task, config, 0, of_rows, batches).peak);
  };
  const double half = peak(rows / 2), whole = peak(rows);
  const double per_row = std::max(0.0, whole - half) / static_cast<double>(rows - rows / 2);
  return {whole - static_cast<double>(rows) * per_row, per_row};
}

// Layers of one round through the attentions add the same as those of the next: models of one and
// of two rounds show it, and one with what is left over.
double extrapolate(const RunConfig& config, const Task& task, int64_t rows) {
  const auto bytes = [&](int64_t layers) {
    const Growth growth = measure_growth(config, task, layers, rows);
    return growth.fixed + static_cast<double>(config.batch) * growth.per_row;
  };
  const auto round = static_cast<int64_t>(attention_options(config).size());
  if (config.layers <= 2 * round || task.shape().second_vocab_size > 0) return bytes(config.layers);
  const double one = bytes(round), added = bytes(2 * round) - one;
  const int64_t rest = config.layers % round, rounds = config.layers / round;
  return (rest == 0 ? one : bytes(round + rest)) + static_cast<double>(rounds - 1) * added;
}

}  // namespace

MeasuredStep measure_step(Model& model, Optimizer& optimizer, const Task& task, RunConfig config,
                          int64_t step, int64_t rows, int64_t batches) {
  model.before_step(step, schedule_end(config));
  config.batch = rows;
  config.accumulate = batches;
  const size_t before = device_allocator().use().held;
  device_allocator().reset_peak();
  const Stopwatch watch;
  TrainingStep(model, optimizer, task, config, false).run(step, config.lr);
  return {device_allocator().use().peak - before + host_batch_bytes(task, rows), watch.seconds()};
}

void refuse_too_large(const RunConfig& config, const MemoryParts& parts, const MemoryLimit& limit) {
  if (parts.sum() <= limit.bytes) return;
  // The allocation that fails, and those before it.
  const MemoryPart last =
      parts.weights() > limit.bytes ? MemoryPart::optimizer : MemoryPart::activations;
  MemoryReport wanted{0, last, parts, limit};
  wanted.held.activations = 0;
  wanted.asked =
      last == MemoryPart::optimizer ? std::exchange(wanted.held.optimizer, 0) : parts.activations;
  fail(ErrorKind::memory, "{}; {}", wanted.text(),
       out_of_memory_hint(config, wanted.weights_dominate()));
}

void refuse_too_many_weights(const RunConfig& config, const ModelConfig& model) {
  refuse_too_large(config, parts_of(config, model, 0), device_allocator().limit());
}

void refuse_what_cannot_fit(const RunConfig& config, const Task& task, double max_seconds) {
  const ModelConfig model = model_config(config, task.shape());
  refuse_too_many_weights(config, model);
  const MemoryLimit limit = device_allocator().limit();
  const double weights = weight_bytes(model);
  const double most = (config.ema > 0 ? 5 : 4) * weights +
                      static_cast<double>(config.batch * task.length()) * token_bytes(model);
  const bool on_cpu = context().device.kind == DeviceKind::cpu;
  if (most < static_cast<double>(limit.bytes) / 8 ||
      smallest_steps(model) > (on_cpu ? kMaxFlops : kMaxFlopsOfGpu))
    return;

  const Stopwatch watch;
  const auto parts_from = [&](int64_t rows) {
    const double peak = extrapolate(config, task, rows);
    device_allocator().release_cache();
    return parts_of(config, model, (peak - weights) / kMargin);
  };
  if (config.batch < 2) return;
  MemoryParts parts = parts_from(2);
  if (parts.sum() <= limit.bytes) return;
  // Ops work in blocks of rows, so that few rows make the rest seem larger than it is.
  if (parts.sum() / kGross <= limit.bytes) {
    const int64_t rows =
        std::min(config.batch, std::max(kEnoughRows, kEnoughTokens / task.length()));
    if (watch.seconds() * static_cast<double>(rows) / 2 > max_seconds) return;
    parts = parts_from(rows);
  }
  refuse_too_large(config, parts, limit);
}

}  // namespace linea

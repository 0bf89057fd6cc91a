#include "train/run/out_of_memory_hint.h"

#include "tensor/context.h"

namespace linea {

MemoryParts training_memory(const Model* model, const Optimizer* optimizer,
                            const WeightAverage* average) {
  MemoryParts parts;
  if (model != nullptr) {
    for (const Parameter& parameter : model->parameters()) {
      parts.parameters += parameter.var.value().bytes();
      if (parameter.var.grad().defined()) parts.gradients += parameter.var.grad().bytes();
    }
    for (const Buffer& buffer : model->buffers()) parts.parameters += buffer.tensor.bytes();
  }
  if (optimizer != nullptr)
    for (const Optimizer::Moment& moment : optimizer->moments())
      parts.optimizer += moment.tensor.bytes();
  if (average != nullptr) parts.optimizer += average->bytes();
  return parts;
}

std::string out_of_memory_hint(const RunConfig& config, bool weights_dominate) {
  if (weights_dominate)
    return fmt::format("lower `dim` ({}), `ffn` ({}) or `layers` ({})", config.dim, config.ffn,
                       config.layers);
  std::string hint = "lower ";
  if (config.batch > 1)
    hint += fmt::format("`batch` ({}; `accumulate` makes up for it), ", config.batch);
  const TaskEntry& task = find_task(config.task);
  if (!task.extent.empty())
    hint += fmt::format("`{}` ({}), ", task.extent,
                        to_string(complete_settings(task_options(config, "")).at(task.extent)));
  hint +=
      fmt::format("`layers` ({}), `dim` ({}) or `ffn` ({})", config.layers, config.dim, config.ffn);
  bool can_recompute = !config.recompute && !config.reversible && !task.reads_pairs;
  for (const AttentionOptions& attention : attention_options(config))
    can_recompute = can_recompute && traits_of(attention).recomputable;
  return can_recompute ? hint + ", or add `recompute`" : hint;
}

std::string machine_hint() {
  const int threads = context().threads;
  const std::string machine = "use a machine (or a container) with more memory";
  return threads > 1 ? fmt::format("{}, or lower `threads` ({})", machine, threads) : machine;
}

}  // namespace linea

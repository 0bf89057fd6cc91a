// What a step of training is, whoever makes it: the trainer, a dry run and `linea bench train` take their losses,
// gradients and batches from here, so that what is foretold and measured is what trains.
#pragma once

#include <cstdint>
#include <functional>

#include "data/task.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "train/config.h"

namespace linea {

// Called where set, for each batch of a step: when its symbols are there, and when its loss is, with all that the
// backward pass needs.
struct StepWatcher {
  std::function<void()> drawn, forwarded;
};

// The loss of training batch number `micro_step` of the task, config.batch rows of it, divided by the batches of a
// step. `auxiliary`, where given: what the attentions add to the loss, divided likewise; undefined: nothing.
Var micro_batch_loss(const Transformer& model, const Task& task, const RunConfig& config, int64_t micro_step,
                     Var* auxiliary = nullptr, const StepWatcher& watcher = {});

// Adds the gradients of the config.accumulate batches of a step to those that the parameters hold. The loss of the
// step, without what the attentions add.
double accumulate_gradients(const Transformer& model, const Task& task, const RunConfig& config, int64_t step,
                            const StepWatcher& watcher = {});

// The update by these gradients, where they and the loss are finite; else it is skipped, as the trainer does without
// a guard. Whether it was made.
bool update_or_skip(Transformer& model, Optimizer& optimizer, double loss, double learning_rate);

}  // namespace linea

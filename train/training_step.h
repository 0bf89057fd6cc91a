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

struct UpdateLimits {
  double loss = 0, norm = 0;  // that an update may have; 0: any finite number
};

// The update by these gradients, where the loss and their norm are finite and within the limits; else it is skipped:
// weights, moments and what attentions keep stay as they were, and the gradients go. `skipping`, where given, is
// called before they do, with their norm, or 0 where the loss was reason enough. Whether it was made.
bool update_or_skip(Transformer& model, Optimizer& optimizer, double loss, double learning_rate,
                    const UpdateLimits& limits = {}, const std::function<void(double)>& skipping = {});

}  // namespace linea

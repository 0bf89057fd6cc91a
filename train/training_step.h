// What a step of training is, whoever makes it: the trainer, a dry run and `linea bench train` take
// their losses, gradients, updates and batches from here, so that what is foretold and measured is
// what trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "tensor/backend.h"
#include "train/config.h"
#include "train/evaluate.h"

namespace linea {

// The loss of training batch number `micro_step` of the task, config.batch rows of it, divided by
// the batches of a step. `auxiliary`, where given: what the attentions add to the loss, divided
// likewise; undefined: nothing.
Var micro_batch_loss(const Model& model, const Task& task, const RunConfig& config,
                     int64_t micro_step, Var* auxiliary = nullptr);

struct StepResult {
  double loss = 0;  // without what the attentions add
  double gradient_norm =
      0;              // before clipping; 0 where the loss was reason enough to skip the update
  bool made = false;  // the update was
};

class TrainingStep {
 public:
  // Called where set, for each batch of a step that is done plainly: when its tokens are there;
  // its loss, with all that the backward pass needs; and its gradients.
  struct Watcher {
    std::function<void()> sampled, forwarded, gone_back;
  };

  // Keeps references. `recorded`: where the device can, steps are recorded and done again by few
  // launches.
  TrainingStep(Model& model, Optimizer& optimizer, const Task& task, const RunConfig& config,
               bool recorded = true);
  ~TrainingStep();

  // The losses and gradients of the config.accumulate batches of this step, and the update by them,
  // where the loss and the gradients' norm are finite and within the limits; else it is skipped:
  // weights, moments and what attentions keep stay as they were, and the gradients go. `skipping`,
  // where given, is called before the gradients go; where steps are recorded these are made once
  // more for it, if there is the memory, else there are none. The host waits for the device once.
  StepResult run(int64_t step, double learning_rate, const UpdateLimits& limits = {},
                 const std::function<void(const StepResult&)>& skipping = {});

  // The gradients alone, added to those that the parameters hold; the loss, one number.
  Tensor add_gradients(int64_t step);

  // Whether steps are recorded, so far as is known: a step may show that they cannot be.
  bool captures() const { return graph_recorder_ != nullptr; }
  // Kernels and copies of a step that was recorded; 0: none was.
  size_t launches() const;
  // Why they cannot; empty where none was tried.
  const std::string& not_captured_reason() const { return not_captured_reason_; }

  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

 private:
  void launch(int64_t step);
  bool launch_captured(int64_t step);
  void load_batch(int64_t number);
  BatchTensors take_batch(int64_t number);
  void add_batch(const BatchTensors& batch);
  void make_gradients_again(int64_t step);
  StepResult outcome(bool made, const UpdateLimits& limits) const;

  Model& model_;
  Optimizer& optimizer_;
  const Task& task_;
  const RunConfig& config_;
  Watcher watcher_;
  std::unique_ptr<GraphRecorder> graph_recorder_;
  std::string not_captured_reason_;
  Batch host_batch_;  // training batch number host_batch_number_
  int64_t host_batch_number_ = -1;
  BatchTensors device_batch_;  // the same on the device, where it was sent there already
  BatchTensors batch_;         // where recorded work finds it, each time
  Tensor loss_;                // of the step's batches so far
};

}  // namespace linea

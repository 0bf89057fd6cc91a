#include "train/training_step.h"

#include <cmath>
#include <utility>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// The batch and the step that dropout's numbers are those of.
void set_number(const RunConfig& config, int64_t micro_step) {
  context().step->seed = static_cast<uint64_t>(config.seed);
  context().step->step = static_cast<uint64_t>(micro_step);
  send_step(context());
}

Batch train_batch(const Task& task, const RunConfig& config, int64_t micro_step) {
  return task.train_batch(static_cast<uint64_t>(config.seed), static_cast<uint64_t>(micro_step),
                          config.batch);
}

Var share_of_step(const Var& loss, const RunConfig& config) {
  return config.accumulate == 1 ? loss : scale(loss, 1.0 / static_cast<double>(config.accumulate));
}

Var loss_of(const Model& model, const RunConfig& config, const BatchTensors& batch,
            Var* auxiliary) {
  const Var outputs = model.forward(batch.inputs, true, batch.second_inputs, auxiliary);
  const Var loss = model.output_head().loss(outputs, batch.targets);
  if (auxiliary != nullptr && auxiliary->defined()) *auxiliary = share_of_step(*auxiliary, config);
  return share_of_step(loss, config);
}

// Into the memory of `kept`, where that is there already.
void place(const Tensor& x, Tensor& kept) {
  if (!kept.defined()) {
    kept = x;
  } else {
    device_memory(kept.device()).copy(context(), kept.address(), x.address(), x.bytes());
  }
}

}  // namespace

Var micro_batch_loss(const Model& model, const Task& task, const RunConfig& config,
                     int64_t micro_step, Var* auxiliary) {
  set_number(config, micro_step);
  return loss_of(model, config, batch_tensors(task, train_batch(task, config, micro_step)),
                 auxiliary);
}

TrainingStep::TrainingStep(Model& model, Optimizer& optimizer, const Task& task,
                           const RunConfig& config, bool recorded)
    : model_(model), optimizer_(optimizer), task_(task), config_(config) {
  if (recorded && model.is_capturable()) graph_recorder_ = make_graph_recorder();
}

TrainingStep::~TrainingStep() = default;

StepResult TrainingStep::run(int64_t step, double learning_rate, const UpdateLimits& limits,
                             const std::function<void(const StepResult&)>& skipping) {
  optimizer_.begin(learning_rate, limits);
  launch(step);
  // While a device works:
  if (context().device.kind != DeviceKind::cpu) {
    load_batch((step + 1) * config_.accumulate);
    device_batch_ = batch_tensors(task_, host_batch_);
  }
  const StepResult result = outcome(optimizer_.end(), limits);
  if (result.made) {
    model_.after_step();
    return result;
  }
  if (skipping) {
    if (graph_recorder_ != nullptr) make_gradients_again(step);
    skipping(result);
  }
  optimizer_.clear_gradients();
  model_.skip_step();
  return result;
}

// Those of recorded work are not the parameters'. A plain step's memory beside that of what is
// recorded may be more than the device has: then there are none.
void TrainingStep::make_gradients_again(int64_t step) {
  optimizer_.clear_gradients();
  try {
    add_gradients(step);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::memory) throw;
    optimizer_.clear_gradients();
    loss_ = {};
  }
}

StepResult TrainingStep::outcome(bool made, const UpdateLimits& limits) const {
  const double loss = optimizer_.loss();
  const bool usable = std::isfinite(loss) && (limits.loss == 0 || loss <= limits.loss);
  return {loss, usable ? optimizer_.gradient_norm() : 0, made};
}

void TrainingStep::launch(int64_t step) {
  if (graph_recorder_ != nullptr && !launch_captured(step)) {
    not_captured_reason_ = graph_recorder_->refusal();
    optimizer_.clear_gradients();
    loss_ = {};
    graph_recorder_.reset();
  } else if (graph_recorder_ != nullptr) {
    return;
  }
  optimizer_.apply(add_gradients(step));
}

// False: something of it cannot be recorded.
bool TrainingStep::launch_captured(int64_t step) {
  const int64_t batches = config_.accumulate;
  for (int64_t i = 0; i < batches; ++i) {
    const BatchTensors next = take_batch(step * batches + i);
    place(next.inputs, batch_.inputs);
    place(next.targets, batch_.targets);
    if (next.second_inputs.defined()) place(next.second_inputs, batch_.second_inputs);
    if (!graph_recorder_->run(static_cast<size_t>(i), [&] { add_batch(batch_); })) return false;
  }
  const bool done =
      graph_recorder_->run(static_cast<size_t>(batches), [&] { optimizer_.apply(loss_); });
  loss_ = {};
  return done;
}

size_t TrainingStep::launches() const {
  size_t total = 0;
  for (int64_t piece = 0; graph_recorder_ != nullptr && piece <= config_.accumulate; ++piece)
    total += graph_recorder_->launches(static_cast<size_t>(piece));
  return total;
}

Tensor TrainingStep::add_gradients(int64_t step) {
  for (int64_t i = 0; i < config_.accumulate; ++i)
    add_batch(take_batch(step * config_.accumulate + i));
  return std::exchange(loss_, {});
}

void TrainingStep::load_batch(int64_t number) {
  if (host_batch_number_ == number) return;
  host_batch_ = train_batch(task_, config_, number);
  host_batch_number_ = number;
  device_batch_ = {};
}

BatchTensors TrainingStep::take_batch(int64_t number) {
  set_number(config_, number);
  load_batch(number);
  BatchTensors batch = std::exchange(device_batch_, {});
  if (!batch.inputs.defined()) batch = batch_tensors(task_, host_batch_);
  if (watcher_.sampled) watcher_.sampled();
  return batch;
}

void TrainingStep::add_batch(const BatchTensors& batch) {
  Var auxiliary;  // never part of the loss that is shown
  const Var part = loss_of(model_, config_, batch, &auxiliary);
  if (watcher_.forwarded) watcher_.forwarded();
  backward(auxiliary.defined() ? add(part, auxiliary) : part);
  if (watcher_.gone_back) watcher_.gone_back();
  if (loss_.defined()) {
    ops::accumulate(part.value(), loss_);
  } else {
    loss_ = part.value();
  }
}

}  // namespace linea

#include "train/run/training_step.h"

#include <cmath>

#include "autograd/ops.h"
#include "tensor/ops.h"
#include "train/timing.h"

namespace linea {
namespace {

// For its lifetime the context has the threads of `choice`, which learns how long that was.
class ChosenThreads {
 public:
  explicit ChosenThreads(StepThreads& choice) : choice_(choice) {
    if (choice.threads() != before_) set_threads(choice.threads());
  }
  ~ChosenThreads() {
    choice_.record_step(watch_.seconds(), count_preemptions() - preemptions_);
    if (context().threads != before_) set_threads(before_);
  }

 private:
  StepThreads& choice_;
  int before_ = context().threads;
  int64_t preemptions_ = count_preemptions();
  Stopwatch watch_;
};

}  // namespace

TrainingStep::TrainingStep(Model& model, Optimizer& optimizer, const Task& task,
                           const RunConfig& config, bool capture)
    : model_(model), optimizer_(optimizer), config_(config), batches_(task, config) {
  if (capture) capture_ = StepCapture::create(model, config.accumulate);
}

// loss = mean over the micro-batches of L(head(model(inputs)), targets); the gradients are those of
// loss + auxiliary. Returns the loss, without the auxiliary losses.
Tensor TrainingStep::compute(int64_t step, StepExecutor& executor,
                             const std::function<void()>& interrupt) {
  const auto mean = [&](const Var& x) {
    return config_.accumulate == 1 ? x : scale(x, 1.0 / static_cast<double>(config_.accumulate));
  };
  Tensor total;
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    if (interrupt && i > 0) interrupt();
    const BatchTensors batch = executor.stage(next_batch(step * config_.accumulate + i));
    executor.micro_batch(i, [&] {
      Var auxiliary;  // losses that the attentions add, undefined if none
      // Only the tape holds the outputs, so that backward() frees them.
      const Var loss = mean(model_.output_head().loss(
          model_.forward(batch.model_inputs(), true, &auxiliary), batch.targets));
      if (watcher_.forward) watcher_.forward();

      backward(auxiliary.defined() ? add(loss, mean(auxiliary)) : loss);
      if (watcher_.backward) watcher_.backward();

      if (total.defined()) {
        ops::accumulate(loss.value(), total);
      } else {
        total = loss.value();
      }
    });
  }
  // Clips by the global norm and updates, if loss and norm are within the limits.
  executor.update([&] { optimizer_.apply(total); });
  return total;
}

StepResult TrainingStep::run(int64_t step, double learning_rate, const UpdateLimits& limits,
                             const SkipHandler& on_skip) {
  const ChosenThreads threads(threads_);
  optimizer_.begin(learning_rate, limits);
  try {
    execute(step);
  } catch (...) {
    optimizer_.cancel();
    model_.skip_step();
    throw;
  }
  if (context().device.kind != DeviceKind::cpu) batches_.prefetch((step + 1) * config_.accumulate);

  const bool updated = optimizer_.end();  // waits for the device
  const double loss = optimizer_.loss();
  const bool usable = std::isfinite(loss) && (limits.loss == 0 || loss <= limits.loss);
  const StepResult result{loss, usable ? optimizer_.gradient_norm() : 0, updated};
  if (updated) {
    model_.after_step();
    if (average_ != nullptr) average_->update();
    return result;
  }
  if (on_skip) {
    if (captures()) recompute_gradients(step);
    on_skip(result);
  }
  optimizer_.clear_gradients();
  model_.skip_step();
  return result;
}

// By capture where that works, else eagerly.
void TrainingStep::execute(int64_t step) {
  if (captures()) {
    if (capture_->run([&](StepExecutor& executor) { compute(step, executor, interrupt_); })) return;
    not_captured_reason_ = capture_->refusal();
    optimizer_.clear_gradients();
    capture_.reset();
  }
  StepExecutor eager;
  compute(step, eager, interrupt_);
}

Tensor TrainingStep::add_gradients(int64_t step) {
  GradientExecutor executor;
  return compute(step, executor);
}

// The gradients of captured work are not in the parameters' tensors. An eager step needs memory
// besides that of the captured one: where there is too little, there are no gradients.
void TrainingStep::recompute_gradients(int64_t step) {
  optimizer_.clear_gradients();
  try {
    add_gradients(step);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::memory) throw;
    optimizer_.clear_gradients();
  }
}

Tensor TrainingStep::forward_loss(int64_t micro_batch) {
  const NoGrad no_grad;
  const BatchTensors batch = next_batch(micro_batch);
  const Var outputs = model_.forward(batch.model_inputs(), true);
  return model_.output_head().loss(outputs, batch.targets).value();
}

// Dropout's random numbers are those of (seed, micro-batch).
BatchTensors TrainingStep::next_batch(int64_t micro_batch) {
  context().step->seed = static_cast<uint64_t>(config_.seed);
  context().step->step = static_cast<uint64_t>(micro_batch);
  send_step(context());
  BatchTensors batch = batches_.take(micro_batch);
  if (watcher_.batch) watcher_.batch();
  return batch;
}

}  // namespace linea

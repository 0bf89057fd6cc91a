#include "train/training_step.h"

#include <cmath>

#include "autograd/ops.h"
#include "train/evaluate.h"

namespace linea {
namespace {

Var share_of_step(const Var& loss, const RunConfig& config) {
  return config.accumulate == 1 ? loss : scale(loss, 1.0 / static_cast<double>(config.accumulate));
}

}  // namespace

Var micro_batch_loss(const Transformer& model, const Task& task, const RunConfig& config, int64_t micro_step,
                     Var* auxiliary, const StepWatcher& watcher) {
  const auto seed = static_cast<uint64_t>(config.seed), number = static_cast<uint64_t>(micro_step);
  context().step->seed = seed;
  context().step->step = number;
  send_step(context());
  const Batch batch = task.train_batch(seed, number, config.batch);
  if (watcher.drawn) watcher.drawn();
  const Var outputs = forward_batch(model, task, batch, true, auxiliary);
  const Var loss = model.head().loss(outputs, Tensor::from(batch.targets, {batch.rows, batch.length}));
  if (auxiliary != nullptr && auxiliary->defined()) *auxiliary = share_of_step(*auxiliary, config);
  return share_of_step(loss, config);
}

double accumulate_gradients(const Transformer& model, const Task& task, const RunConfig& config, int64_t step,
                            const StepWatcher& watcher) {
  double loss = 0;
  for (int64_t micro = 0; micro < config.accumulate; ++micro) {
    Var auxiliary;  // never part of the loss that is shown
    const Var part = micro_batch_loss(model, task, config, step * config.accumulate + micro, &auxiliary, watcher);
    if (watcher.forwarded) watcher.forwarded();
    backward(auxiliary.defined() ? add(part, auxiliary) : part);
    loss += part.value().item();
  }
  return loss;
}

bool update_or_skip(Transformer& model, Optimizer& optimizer, double loss, double learning_rate,
                    const UpdateLimits& limits, const std::function<void(double)>& skipping) {
  const bool usable = std::isfinite(loss) && (limits.loss == 0 || loss <= limits.loss);
  const bool made = usable && optimizer.step(learning_rate, limits.norm);
  if (made) {
    model.after_step();
  } else {
    if (skipping) skipping(usable ? optimizer.gradient_norm() : 0);
    optimizer.clear_gradients();
    model.skip_step();
  }
  return made;
}

}  // namespace linea

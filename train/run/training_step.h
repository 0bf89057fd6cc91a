// One training step, shared by the trainer, the dry run and `linea bench train`, so that what they
// estimate and measure is what trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "nn/over_ranks.h"
#include "nn/weight_average.h"
#include "train/config.h"
#include "train/run/batches.h"
#include "train/run/gradient_sum.h"
#include "train/run/rank_part.h"
#include "train/run/step_capture.h"
#include "train/run/step_threads.h"

namespace linea {

struct StepResult {
  double loss = 0;           // without the attentions' auxiliary losses
  double gradient_norm = 0;  // before clipping; 0 where the loss alone ruled out the update
  bool updated = false;      // false: the update was skipped
};

class TrainingStep {
 public:
  // Called, where set, for each micro-batch that runs eagerly: once its tokens are on the device,
  // once its loss and saved tensors exist, and once its gradients exist.
  struct Watcher {
    std::function<void()> batch, forward, backward;
  };
  using SkipHandler = std::function<void(const StepResult&)>;

  // Keeps references. `capture`: where the device supports it, steps are captured and replayed.
  // `ranks`: that share the rows of a step, and the positions by config.sequence_ranks; null: this
  // process has them all, or stands for one of several that share the positions. Errors:
  // ErrorKind::usage, more ranks than rows; those of cut_of() and check_sequence_ranks().
  TrainingStep(Model& model, Optimizer& optimizer, const Task& task, const RunConfig& config,
               bool capture = true, Ranks* ranks = nullptr);

  // Gradients of the step's config.accumulate * config.batch rows, in micro-batches of at most
  // config.batch, and the update if the loss and the gradient norm are finite and within the
  // limits. Otherwise the update is skipped: weights, moments and the attentions' buffers stay as
  // they were, and the gradients are cleared after `on_skip`. The host waits for the device once.
  // On a CPU that other programs use, it may take fewer threads than the context has.
  StepResult run(int64_t step, double learning_rate, const UpdateLimits& limits = {},
                 const SkipHandler& on_skip = {});

  // `check` is called between the micro-batches of run(), by all ranks equally often. Where it
  // throws, the step leaves no trace in the model and the optimizer.
  void interrupt_by(std::function<void()> check) { interrupt_ = std::move(check); }

  // Takes the weights after each update; null: none.
  void average_in(WeightAverage* average) { average_ = average; }

  // Numbers of each rank, which are added in the messages of each step: their sums over the ranks
  // after run().
  void note_by(std::function<GradientSum::Notes()> notes) { notes_ = std::move(notes); }
  const GradientSum::Notes& notes() const { return sum_->notes(); }

  // The gradients of this rank's rows alone, added to those of the parameters; returns the loss,
  // one number.
  Tensor add_gradients(int64_t step);
  // The mean loss of a micro-batch of this rank, without gradients, for checks.
  Tensor forward_loss(int64_t step, int64_t micro_batch);
  int64_t micro_batches() const { return micro_batches(own_); }  // of this rank

  // Threads of the next step on a CPU.
  int threads() const { return threads_.threads(); }
  // Whether this rank has a part of the positions of its rows.
  bool has_part() const { return cut_.parts > 1; }
  // Whether steps are captured; a step may find that they cannot be.
  bool captures() const { return capture_ != nullptr; }
  // Kernels and copies of a captured step; 0: none was captured.
  size_t launches() const { return captures() ? capture_->launches() : 0; }
  // Why steps cannot be captured; empty where that was not tried.
  const std::string& not_captured_reason() const { return not_captured_reason_; }

  void watch(Watcher watcher) { watcher_ = std::move(watcher); }
  // Where ranks share steps: called as a sum of that many floats begins.
  void watch_sums(std::function<void(int64_t)> started) { sum_->watch(std::move(started)); }

 private:
  Tensor compute(int64_t step, StepExecutor& executor, const std::function<void()>& interrupt = {});
  void execute(int64_t step);
  SequencePart* part();
  StepRows step_rows(const Share& rows) const;
  SharedWork shared_updates() const;
  BatchTensors next_batch(int64_t step, int64_t micro_batch);
  int64_t rows() const { return config_.accumulate * config_.batch; }  // of a step
  int64_t micro_batches(const Share& share) const {
    return (share.count() + config_.batch - 1) / config_.batch;
  }
  Share batch_rows(int64_t micro_batch) const;
  double batch_weight(int64_t micro_batch) const;
  void recompute_gradients(int64_t step);

  Model& model_;
  Optimizer& optimizer_;
  WeightAverage* average_ = nullptr;
  const Task& task_;
  const RunConfig& config_;
  Watcher watcher_;
  std::function<void()> interrupt_;
  TrainingBatches batches_;
  Ranks* ranks_;  // null: none but this one
  RankCut cut_;
  std::unique_ptr<SequencePart> part_;  // made by the first pass; null: whole sequences
  Share own_;                           // of the rows of a step
  int64_t fewest_ = 0;                  // micro-batches of the rank that has the fewest
  std::unique_ptr<GradientSum> sum_;    // null where ranks_ is
  std::function<GradientSum::Notes()> notes_;
  std::unique_ptr<StepCapture> capture_;
  std::string not_captured_reason_;
  StepThreads threads_{context().threads};
};

}  // namespace linea

// A training run: batches, updates, looks at the validation split, checkpoints, samples, and a record of
// it all in the run's folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/task.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "train/config.h"
#include "train/evaluate.h"
#include "train/memory_advice.h"
#include "train/metrics.h"
#include "train/progress.h"

namespace linea {

// Error: ErrorKind::usage where `folder` holds a run already.
void refuse_held_run(const std::filesystem::path& folder);

class Trainer {
 public:
  // Starts a run in `folder`, with the weights of the run `initial` where that is not empty, or goes on with
  // the one that is there. Errors: a folder that holds another run or cannot be written, settings or data that
  // cannot work, weights of other sizes.
  Trainer(const RunConfig& config, const std::filesystem::path& folder, bool resume, bool json,
          const std::string& initial = "");

  // The exit code: 0, or 75 when a signal ended it with the run saved. Error: ErrorKind::numeric when the
  // loss or the gradient is not finite, with what went bad first.
  int run();

 private:
  struct StepResult {
    double loss, gradient_norm;
  };
  StepResult update(double learning_rate);
  Var forward_loss(int64_t micro_step, Var* auxiliary = nullptr) const;
  [[noreturn]] void explain_nonfinite(double loss, double gradient_norm) const;
  void record_step(double learning_rate, const StepResult& result, bool last);
  void look_at_validation(bool last);
  void save();
  void draw_samples();
  std::string sample_base() const;
  void make_up_for_a_stop();
  bool due(int64_t every) const { return step_ == config_.steps || (every > 0 && step_ % every == 0); }

  RunConfig config_;
  std::filesystem::path folder_;
  std::unique_ptr<Task> task_;
  std::string vocabulary_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Metrics> metrics_;
  Progress progress_;
  Stopwatch watch_;
  bool looks_first_ = false;  // at the validation split, before any step
  int64_t step_ = 0, first_step_ = 0;
  int64_t losses_ = 0;   // in the sum below
  double loss_sum_ = 0;  // since the last record
  const MemoryCensus census_{[this] { return training_memory(model_.get(), optimizer_.get()); }};
};

}  // namespace linea

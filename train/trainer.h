// A training run: batches, updates, looks at the validation split, checkpoints, samples, and a
// record of it all in the run's folder.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "train/checkpoint_files.h"
#include "train/config.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/out_of_memory_hint.h"
#include "train/progress.h"
#include "train/run_lock.h"
#include "train/timing.h"
#include "train/training_step.h"
#include "train/update_guard.h"

namespace linea {

// Error: ErrorKind::usage where `folder` holds a run already.
void refuse_held_run(const std::filesystem::path& folder);

class Trainer {
 public:
  // Starts a run in `folder`, with the weights of the run `initial` where that is not empty, or
  // goes on with the one that is there. Errors: a folder that holds another run or cannot be
  // written, settings or data that cannot work, weights of other sizes.
  Trainer(const RunConfig& config, const std::filesystem::path& folder, bool resume, bool json,
          ProgressReporter& progress, const std::string& initial = "");

  // The exit code: 0, or 75 when a signal or its time ended it with the run saved. Errors:
  // ErrorKind::numeric when several updates in a row could not be made, with what went bad first;
  // ErrorKind::write when its end could not be saved.
  int run();

 private:
  struct Interrupted {};  // a look at the validation split or a drawing, by a reason to stop

  StepResult update(double learning_rate);
  Var forward_loss(int64_t micro_step) const;
  void report_skip(const StepResult& result);
  std::string first_nonfinite(const StepResult& result) const;
  void record_step(double learning_rate, const StepResult& result, bool last);
  bool look_at_validation(bool last);
  void save();
  KeepRule keep_rule() const;
  void try_to_save();
  int stop();
  void check_for_stop() const;
  bool time_to_save() const;
  std::string hint() const;
  int64_t best_step(const std::function<bool(int64_t)>& counts) const;
  std::unique_ptr<Task> read_task(bool resume) const;
  std::string stop_reason() const;
  void write_samples();
  std::string sample_base() const;
  void make_up_for_a_stop();
  void check_metrics();
  bool due(int64_t every) const {
    return step_ == config_.steps || (every > 0 && step_ % every == 0);
  }

  RunConfig config_;
  std::filesystem::path folder_;
  ProgressReporter& progress_;
  std::unique_ptr<RunLock> lock_;
  std::unique_ptr<Task> task_;
  std::string vocabulary_, fingerprint_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<TrainingStep> training_step_;
  std::unique_ptr<Metrics> metrics_;
  Stopwatch watch_;
  bool looks_first_ = false;  // at the validation split, before any step
  int64_t step_ = 0, first_step_ = 0;
  int64_t losses_ = 0;   // in the sum below
  double loss_sum_ = 0;  // since the last record
  int64_t saved_ = -1;   // the newest step that was
  UpdateGuard guard_;
  double max_seconds_ = 0, tried_to_save_at_ = 0;
  bool metrics_wait_ = false;
  const MemoryBreakdown breakdown_{
      [this] { return training_memory(model_.get(), optimizer_.get()); }};
};

}  // namespace linea

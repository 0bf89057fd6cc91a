// A training run: steps, validation, checkpoints, samples, and their record in the run's folder.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "train/config.h"
#include "train/record/metrics.h"
#include "train/record/progress.h"
#include "train/record/report.h"
#include "train/run/checkpoint_files.h"
#include "train/run/out_of_memory_hint.h"
#include "train/run/rank_checks.h"
#include "train/run/run_lock.h"
#include "train/run/training_step.h"
#include "train/run/update_guard.h"
#include "train/samples.h"
#include "train/timing.h"

namespace linea {

// Error: ErrorKind::usage where `folder` already holds a run.
void refuse_existing_run(const std::filesystem::path& folder);

using SampleJudge = std::function<MetricValues(const Model&, const SamplingProgress&)>;

// All ranks (parallel/ranks.h) make the same steps with one Trainer each. Rank 0 has the folder,
// its lock and the record; it decides what depends on them or on its clock, for all.
class Trainer {
 public:
  // Starts a run in `folder`, with the weights of the run `initial` if that is not empty, or
  // resumes the run in `folder`. Errors: a folder that holds another run or cannot be written,
  // invalid settings or data, weights of other sizes; with `check_memory`, a run that cannot fit.
  Trainer(const RunConfig& config, const std::filesystem::path& folder, bool resume, bool json,
          ProgressReporter& progress, const std::string& initial = "", bool check_memory = true);

  // The exit code: 0, or kExitStopped when a signal or --max-time stopped the run and it was saved.
  // Errors: ErrorKind::numeric when too many updates in a row were not finite, with what was first;
  // ErrorKind::write when the end of the run could not be saved.
  int run();
  const Task& task() const { return *task_; }
  // Samples are judged where they are written; the values become metrics.
  void judge_by(SampleJudge judge) { judge_ = std::move(judge); }

 private:
  // trainer.cpp
  void build(bool resume, const std::string& initial, bool check_memory);
  void restore_from_folder();
  void open_folder(bool resume, bool json);
  void write_settings();
  void step();
  void catch_up();
  bool at_end() const { return step_ == config_.steps || stopped_early_; }
  bool is_due(int64_t every) const { return at_end() || (every > 0 && step_ % every == 0); }
  bool is_time_to_save() const { return ranks_.alone() ? is_due_by_clock() : save_is_due_; }
  void save();
  void try_to_save();
  RetentionRule retention() const;
  bool is_best(Weights weights) const;
  std::string stop_reason() const { return ranks_.alone() ? own_stop_reason() : stop_; }
  int stop();
  void say_done();

  // trainer_ranks.cpp
  void check_fits() const;
  void restore();
  bool is_due_by_clock() const;
  std::string own_stop_reason() const;
  void check_for_stop();
  void agree_to_stop();
  GradientSum::Notes notes() const;
  void read_notes();
  bool decide(const char* what, const std::function<bool()>& question);
  void on_main(const char* what, const std::function<void()>& work);

  // trainer_record.cpp
  std::pair<double, double> shares_of_waiting();
  double elapsed_seconds() const { return seconds_before_ + watch_.seconds(); }
  void record_settings();
  void record_step(double learning_rate, const StepResult& result);
  void record_skip(const StepResult& result);
  bool validate(bool last);
  void write_samples();
  SamplingProgress sampling_progress();
  void judge_samples();
  void report(RunStatus status);
  std::string sample_base() const;
  void report_metrics_problem();
  std::string divergence_hint() const;

  Ranks& ranks_ = ranks();
  const bool main_ = ranks_.is_main();
  std::string stop_;          // why all ranks stop; empty: they do not, or there is one
  bool save_is_due_ = false;  // by rank 0's clock
  RunConfig config_;
  std::filesystem::path folder_;
  ProgressReporter& progress_;
  std::unique_ptr<RunLock> lock_;
  std::unique_ptr<Task> task_;
  std::string vocabulary_, fingerprint_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;  // null without --ema
  std::unique_ptr<TrainingStep> training_step_;
  std::unique_ptr<SameWeights> same_weights_;
  std::unique_ptr<Metrics> metrics_;  // of rank 0
  SampleJudge judge_;                 // null: samples are not judged
  Stopwatch watch_;
  double seconds_before_ = 0;    // of training before this program
  std::string setting_changes_;  // since the checkpoint that was resumed
  bool settings_written_ = false;
  bool validates_first_ = false;  // before any step
  int64_t step_ = 0, first_step_ = 0;
  int64_t loss_count_ = 0;   // of the losses in the sum below
  double loss_sum_ = 0;      // since the last record
  int64_t saved_step_ = -1;  // of the newest checkpoint
  bool stopped_early_ = false;
  UpdateGuard guard_;
  double max_seconds_ = 0, last_save_try_ = 0;  // seconds
  bool metrics_buffered_ = false, report_failed_ = false;
  double next_report_ = 0;                      // seconds
  double recorded_at_ = 0, waited_before_ = 0;  // seconds at the last record
  const MemoryBreakdown breakdown_{
      [this] { return training_memory(model_.get(), optimizer_.get(), average_.get()); }};
};

}  // namespace linea

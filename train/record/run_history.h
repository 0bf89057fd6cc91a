// The record of training in a run's folder, read without loading its model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/config.h"
#include "train/record/metrics.h"

namespace linea {

struct RunHistory {
  std::filesystem::path folder;
  std::vector<MetricsLine> lines;  // of metrics.jsonl, in its order, without skipped updates

  // The last line that has a number of this name; null where there is none.
  const MetricsLine* last(const std::string& name) const;
  // The line of the best validation (best_step); null where there is none.
  const MetricsLine* best_validation(Weights weights = Weights::last) const;
  // The validations that do not compete for it (uncompared_steps), and a sentence about them, ""
  // where there are none.
  std::vector<int64_t> uncompared() const;
  std::string uncompared_note() const;
  // The line of the last validation that also measured a larger whole split; null where there is
  // none.
  const MetricsLine* whole_validation() const;
  // Steps and training time of the last line; 0 where there is none.
  int64_t step() const;
  double seconds() const;
};

// "step 40: loss 0.5416, 0.7814 bits/dim, accuracy 0.8091 over 131040 tokens"; `prefix`: of the
// keys, "whole_val_" for the whole split.
std::string describe_validation(const MetricsLine& line, const TaskShape& shape,
                                const std::string& prefix = "val_");

// Whether linea train wrote the folder: it has settings and a place for checkpoints.
bool is_run(const std::filesystem::path& folder);

// Folders that could not be read.
struct SkippedFolders {
  int64_t folders = 0;
  std::string first;  // and why
  std::string text() const;
};
// The runs in a folder and below, sorted; a run holds no other. Links to folders are not followed.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& root,
                                             SkippedFolders& skipped);

// No lines where metrics.jsonl is missing. Error: ErrorKind::input for a file that cannot be read.
RunHistory read_history(const std::filesystem::path& run);

// The settings of a run. Error: ErrorKind::input.
RunConfig read_run_config(const std::filesystem::path& run);

// "running" while a program trains the run, "finished" at its end, "stopped" where a checkpoint
// holds all steps that it recorded, else "died": its last steps are lost.
std::string state_of(const RunHistory& history, const RunConfig& config);

// The elements of all parameters, from the header of the newest checkpoint; -1 where there is none.
int64_t count_saved_parameters(const std::filesystem::path& run);

// The local time of the last line in metrics.jsonl, "2026-01-31 23:59:59"; "" without that file.
std::string last_written(const std::filesystem::path& run);

// The files in RUN/samples, by step.
std::vector<std::string> sample_files(const std::filesystem::path& run);

// The run's checkpoint with the lowest validation loss (best_step); validations that do not compete
// are named on stderr. Error: ErrorKind::usage where `run` is no run's folder, or has no checkpoint
// of a step where these weights were validated.
std::filesystem::path best_checkpoint(const std::filesystem::path& run,
                                      Weights weights = Weights::last);

}  // namespace linea

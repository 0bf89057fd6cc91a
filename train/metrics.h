// RUN/metrics.jsonl: one JSON object per line, each line one write; optionally also TensorBoard
// events.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/event_file.h"

namespace linea {

class Metrics {
 public:
  // Appends to the file, after removing lines of steps after `last_step` (of a run resumed from an
  // older checkpoint). With `echo`, lines are also printed to stdout. Error: ErrorKind::write.
  Metrics(const std::filesystem::path& path, int64_t last_step, bool echo);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Non-finite numbers are written as strings; `remarks` are strings. Lines that a full disk does
  // not take are buffered and written by a later call; a file that was removed is created again.
  void record(int64_t step, const std::vector<std::pair<std::string, double>>& values,
              const std::vector<std::pair<std::string, std::string>>& remarks = {});
  // Why lines are still buffered; "" where none are.
  const std::string& problem() const { return problem_; }
  // Flushes the file to the disk.
  void flush();

  // Also records to `events` from now on.
  void add_events(std::unique_ptr<EventFile> events) { events_ = std::move(events); }
  // The sample in the file `base`.png or `base`.txt, for TensorBoard only. Error: ErrorKind::input
  // where it cannot be read.
  void record_sample(int64_t step, const std::string& base);
  struct Validation {
    double loss = 0;  // NaN where it was not finite
    int64_t tokens = 0;
  };
  // By step.
  const std::map<int64_t, Validation>& validations() const { return validations_; }
  // Of the steps that `eligible` accepts, the one with the lowest validation loss (the last of
  // equal ones); -1 where there is none. Only validations over the smallest number of tokens
  // compete: one over the whole split is not comparable with those over a part.
  int64_t best_step(const std::function<bool(int64_t)>& eligible) const;

 private:
  void write_pending();
  void set_problem(int reason);

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool echo_;
  std::string pending_, problem_;
  std::map<int64_t, Validation> validations_;
  std::unique_ptr<EventFile> events_;  // null without --tensorboard
};

}  // namespace linea

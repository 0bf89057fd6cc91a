// RUN/metrics.jsonl: one JSON object per line, each line one write; optionally also TensorBoard
// events.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/record/event_file.h"
#include "train/weights.h"

namespace linea {

// One line of the file: its numbers by name; what is not finite is NaN.
struct MetricsLine {
  int64_t step = 0;
  std::map<std::string, double> values;
  bool incident = false;  // of a skipped update

  double value(const std::string& name) const;  // NaN where there is none
};
// Nothing for a line that is not one of a run.
std::optional<MetricsLine> parse_metrics_line(const std::string& text);

struct Validation {
  double loss = 0;  // NaN where it was not finite
  int64_t tokens = 0;
};
using Validations = std::map<int64_t, Validation>;  // by step
// Adds the line's validation of these weights, if it has one.
void add_validation(const MetricsLine& line, Validations& validations,
                    Weights weights = Weights::last);
// The smallest number of tokens of a validation.
int64_t min_tokens(const Validations& validations);
// The step with the lowest validation loss among those that `eligible` accepts (the last of
// equal ones); -1 where there is none. Only validations over the smallest number of tokens
// compete.
int64_t best_step(const Validations& validations, const std::function<bool(int64_t)>& eligible);
// The steps that do not compete. In runs of version 0.1.0 the last validation covers the whole
// split, the others a part of it.
std::vector<int64_t> uncompared_steps(const Validations& validations);

using MetricValues = std::vector<std::pair<std::string, double>>;

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
  void record(int64_t step, const MetricValues& values,
              const std::vector<std::pair<std::string, std::string>>& remarks = {});
  // The last elapsed_s of the file as it was found; 0 where there is none.
  double elapsed_seconds() const { return elapsed_seconds_; }
  // Why lines are still buffered; "" where none are.
  const std::string& problem() const { return problem_; }
  // Flushes the file to the disk.
  void flush();

  // Also records to `events` from now on.
  void add_events(std::unique_ptr<EventFile> events) { events_ = std::move(events); }
  // The sample in the file `base`.png or `base`.txt, for TensorBoard only. Error: ErrorKind::input
  // where it cannot be read.
  void record_sample(int64_t step, const std::string& base);
  const Validations& validations(Weights weights = Weights::last) const {
    return weights == Weights::last ? validations_ : average_validations_;
  }

 private:
  void add_validations(const MetricsLine& line);
  void write_pending();
  void set_problem(int reason);

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool echo_;
  double elapsed_seconds_ = 0;
  std::string pending_, problem_;
  Validations validations_, average_validations_;
  std::unique_ptr<EventFile> events_;  // null without --tensorboard
};

}  // namespace linea

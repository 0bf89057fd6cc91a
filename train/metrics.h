// RUN/metrics.jsonl: one JSON object a line, each line one write; and the same numbers for
// TensorBoard, where asked.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/event_file.h"

namespace linea {

class Metrics {
 public:
  // Appends to the file; lines of steps after `last_step` are cut first (a run that goes on from an
  // older checkpoint). With `echo`, lines go to stdout too. Error: ErrorKind::write.
  Metrics(const std::filesystem::path& path, int64_t last_step, bool echo);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Numbers that are not finite are written as strings; `remarks` are strings themselves. What a
  // full disk does not take is kept, and written by a later call; a file that someone removed is
  // made anew.
  void record(int64_t step, const std::vector<std::pair<std::string, double>>& values,
              const std::vector<std::pair<std::string, std::string>>& remarks = {});
  // Why lines wait to be written; "" where none do.
  const std::string& problem() const { return problem_; }
  // Puts what was written on the disk.
  void flush();

  // From now on, `events` gets what is recorded.
  void add_events(std::unique_ptr<EventFile> events) { events_ = std::move(events); }
  // The sample in the file `base`.png or `base`.txt, for TensorBoard alone. Error:
  // ErrorKind::input, unreadable.
  void record_sample(int64_t step, const std::string& base);
  // The looks at the validation split that the record tells of, by step.
  struct Look {
    double loss = 0;  // NaN where it was not finite
    int64_t tokens = 0;
  };
  const std::map<int64_t, Look>& looks() const { return looks_; }

 private:
  void write_pending();
  void note_problem(int reason);

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool echo_;
  std::string pending_, problem_;
  std::map<int64_t, Look> looks_;
  std::unique_ptr<EventFile> events_;  // null without --tensorboard
};

}  // namespace linea

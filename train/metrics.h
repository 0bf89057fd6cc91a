// RUN/metrics.jsonl: one JSON object a line, flushed line by line; and the same numbers for TensorBoard, where asked.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/event_file.h"

namespace linea {

class Metrics {
 public:
  // Appends to the file; lines of steps after `last_step` are cut first (a run that goes on from an older
  // checkpoint). With `echo`, lines go to stdout too.
  Metrics(const std::filesystem::path& path, int64_t last_step, bool echo);
  // Numbers that are not finite are written as strings. Error: ErrorKind::write.
  void record(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  // From now on, `events` gets what is recorded.
  void add_events(std::unique_ptr<EventFile> events) { events_ = std::move(events); }
  // The sample in the file `base`.png or `base`.txt, for TensorBoard alone. Error: ErrorKind::input, unreadable.
  void record_sample(int64_t step, const std::string& base);
  // Whether a line of this step has a value of this name.
  bool holds(int64_t step, const std::string& name) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool echo_;
  std::unique_ptr<EventFile> events_;  // null without --tensorboard
};

}  // namespace linea

// Interface for progress reports; cli/terminal.h implements it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace linea {

class ProgressReporter {
 public:
  virtual ~ProgressReporter() = default;
  // Whether it is time for the next status line; always for the last one.
  virtual bool due(bool last = false) = 0;
  // A status line, which replaces the one before.
  virtual void show(const std::string& line) = 0;
  // A line that stays.
  virtual void note(const std::string& line) = 0;
  // Width of an image preview in characters; 0: no previews.
  virtual int64_t preview_width() const { return 0; }
  virtual void show_preview(const std::string&) {}
};

// The first part of some work is too slow to tell how long the rest takes: no time left is shown
// before this many steps, sequences or tokens.
inline constexpr int64_t kTimedAfter = 10;

// Shows "30 of 100 steps, 20s left" when it is called with the work done and its total; `what`
// names the work. `progress` outlives it.
std::function<void(int64_t done, int64_t all)> show_time_left(ProgressReporter& progress,
                                                              const std::string& what);

}  // namespace linea

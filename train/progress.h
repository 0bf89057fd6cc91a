// Progress of long work, for whoever shows it; the terminal does (cli/terminal.h).
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
  // Characters a line of a preview of images has room for; 0: previews are not shown.
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

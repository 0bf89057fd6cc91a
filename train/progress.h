// What a person sees while something runs: one line that is rewritten in a terminal, plain lines
// elsewhere. All of it on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace linea {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Progress {
 public:
  Progress();
  ~Progress();
  // Due a few times a second in a terminal, every few seconds elsewhere; `last` is always due.
  bool due(bool last = false);
  void show(const std::string& line);
  // A line that stays.
  void note(const std::string& line);
  bool terminal() const { return terminal_; }

 private:
  bool terminal_;
  bool open_ = false;  // a rewritten line stands without its end
  Stopwatch watch_;
  double shown_at_ = -1e9;
};

std::string duration_text(double seconds);  // "1h02m", "3m05s", "12s"
std::string bytes_text(double bytes);       // "1.5 GiB"
std::string count_text(double count);       // "12.3k"

// Columns of the terminal that stdout is, 0 where it is none or shows no colours (NO_COLOR, TERM=dumb).
int64_t colour_terminal_width();

}  // namespace linea

// What a person sees while something runs: one line that is rewritten in a terminal, plain lines
// elsewhere and where TERM=dumb. All of it on stderr, without any escape sequence.
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
  // In a terminal, cut to its width: a line that wraps could not be written again.
  void show(const std::string& line);
  // A line that stays.
  void note(const std::string& line);
  bool terminal() const { return terminal_; }

 private:
  void wipe();

  bool terminal_;
  size_t open_ = 0;  // columns of a rewritten line that stands without its end
  Stopwatch watch_;
  double shown_at_ = -1e9;
};

// The start of a UTF-8 text that is at most `columns` characters long.
std::string cut_to_width(const std::string& text, size_t columns);

// Without line breaks and a terminal's codes, which names of files may hold.
std::string printable(std::string text);

std::string duration_text(double seconds);  // "1h02m", "3m05s", "12s"
std::string bytes_text(double bytes);       // "1.5 GiB"
std::string count_text(double count);       // "12.3k"

// Columns of the terminal that stdout is, 0 where it is none or shows no colors (NO_COLOR not
// empty, TERM=dumb).
int64_t color_terminal_width();

}  // namespace linea

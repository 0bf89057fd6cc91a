// Progress of long work, for whoever shows it; the terminal does (cli/terminal.h).
#pragma once

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
};

}  // namespace linea

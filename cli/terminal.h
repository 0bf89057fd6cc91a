// Output for a person: on a terminal one status line, rewritten in place; elsewhere, and with
// TERM=dumb, one line per update. It goes to stderr, without escape sequences.
#pragma once

#include <cstdint>
#include <string>

#include "train/record/progress.h"
#include "train/timing.h"

namespace linea {

class TerminalProgress : public ProgressReporter {
 public:
  // With `previews`, images are previewed on stdout where it is a terminal with colors.
  explicit TerminalProgress(bool previews = false);
  ~TerminalProgress() override;
  // A few times a second on a terminal, every few seconds elsewhere.
  bool due(bool last = false) override;
  // On a terminal, the fields that fit its width: a line that wraps could not be rewritten.
  void show(const std::string& line) override;
  void note(const std::string& line) override;
  int64_t preview_width() const override;
  void show_preview(const std::string& preview) override;
  bool is_terminal() const { return is_terminal_; }

 private:
  void wipe();

  bool is_terminal_, previews_;
  size_t columns_ = 0;  // of the status line, while it is unterminated
  Stopwatch watch_;
  double shown_at_ = -1e9;
};

// A line of a library for the user, on stderr; nothing where it is empty.
void print_note(const std::string& line);

// The longest prefix of a UTF-8 text with at most `columns` characters.
std::string cut_to_width(const std::string& text, size_t columns);

// The fields of a line, separated by two blanks, that fit into `columns`; the first one is cut
// where it does not fit.
std::string whole_fields(const std::string& line, size_t columns);

// As UTF-8, and without line breaks and terminal control codes: file names may contain anything.
std::string printable(std::string text);

// Columns of the terminal on stdout, at most 80; 0 without one, or where colors are disabled (NO_COLOR set and
// not empty, TERM=dumb).
int64_t color_terminal_width();

}  // namespace linea

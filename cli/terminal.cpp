#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "data/one_line.h"
#include "data/utf8.h"

namespace linea {
namespace {

constexpr size_t kDefaultWidth = 80;

// A terminal that can move its cursor.
bool can_move_cursor(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

size_t terminal_width(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultWidth;
}

bool colors_disabled() {
  const char* value = std::getenv("NO_COLOR");
  return value != nullptr && value[0] != '\0';
}

}  // namespace

TerminalProgress::TerminalProgress(bool previews)
    : is_terminal_(can_move_cursor(STDERR_FILENO)), previews_(previews) {}

TerminalProgress::~TerminalProgress() {
  if (columns_ > 0) std::fputc('\n', stderr);
}

bool TerminalProgress::due(bool last) {
  return last || watch_.seconds() - shown_at_ >= (is_terminal_ ? 0.25 : 5.0);
}

// One column stays free: some terminals wrap as soon as the last column is written.
void TerminalProgress::show(const std::string& line) {
  shown_at_ = watch_.seconds();
  if (is_terminal_) {
    wipe();
    const std::string shown = whole_fields(line, terminal_width(STDERR_FILENO) - 1);
    std::fputs(shown.c_str(), stderr);
    columns_ = shown.size();
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void TerminalProgress::note(const std::string& line) {
  wipe();
  std::fprintf(stderr, "%s\n", printable(line).c_str());
  std::fflush(stderr);
}

int64_t TerminalProgress::preview_width() const { return previews_ ? color_terminal_width() : 0; }

void TerminalProgress::show_preview(const std::string& preview) {
  if (preview.empty()) return;
  wipe();
  std::fflush(stderr);
  std::fputs(preview.c_str(), stdout);
  std::fflush(stdout);
}

// Overwrites the status line with blanks, up to the current width: the terminal may have shrunk.
void TerminalProgress::wipe() {
  if (columns_ > 0)
    std::fprintf(stderr, "\r%*s\r",
                 static_cast<int>(std::min(columns_, terminal_width(STDERR_FILENO) - 1)), "");
  columns_ = 0;
}

void print_note(const std::string& line) {
  if (!line.empty()) std::fprintf(stderr, "linea: %s\n", printable(line).c_str());
}

std::string cut_to_width(const std::string& text, size_t columns) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
    if (starts_character && width++ == columns) return text.substr(0, i);
  }
  return text;
}

std::string whole_fields(const std::string& line, size_t columns) {
  const std::string cut = cut_to_width(line, columns);
  const size_t end = cut.size() < line.size() ? line.rfind("  ", cut.size()) : std::string::npos;
  return cut.substr(0, end);
}

std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return valid_utf8(text);
}

int64_t color_terminal_width() {
  if (!can_move_cursor(STDOUT_FILENO) || colors_disabled()) return 0;
  return static_cast<int64_t>(std::min(terminal_width(STDOUT_FILENO), kDefaultWidth));
}

}  // namespace linea

#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "data/one_line.h"

namespace linea {

namespace {

constexpr size_t kUsualWidth = 80;

// A terminal that can move its cursor.
bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

size_t width_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

bool no_colors_asked() {
  const char* value = std::getenv("NO_COLOR");
  return value != nullptr && value[0] != '\0';
}

}  // namespace

Progress::Progress() : terminal_(is_terminal(STDERR_FILENO)) {}

Progress::~Progress() {
  if (open_ > 0) std::fputc('\n', stderr);
}

bool Progress::due(bool last) {
  return last || watch_.seconds() - shown_at_ >= (terminal_ ? 0.25 : 5.0);
}

// One column stays free: some terminals go to the next line when the last is written.
void Progress::show(const std::string& line) {
  shown_at_ = watch_.seconds();
  if (terminal_) {
    wipe();
    const std::string shown = cut_to_width(line, width_of(STDERR_FILENO) - 1);
    std::fputs(shown.c_str(), stderr);
    open_ = shown.size();
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void Progress::note(const std::string& line) {
  wipe();
  std::fprintf(stderr, "%s\n", printable(line).c_str());
  std::fflush(stderr);
}

std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

// Blanks over the open line, no more than fit now: the terminal may have become narrower.
void Progress::wipe() {
  if (open_ > 0)
    std::fprintf(stderr, "\r%*s\r", static_cast<int>(std::min(open_, width_of(STDERR_FILENO) - 1)),
                 "");
  open_ = 0;
}

std::string cut_to_width(const std::string& text, size_t columns) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
    if (starts_character && width++ == columns) return text.substr(0, i);
  }
  return text;
}

std::string duration_text(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1073741824.0) return fmt::format("{:.2f} GiB", bytes / 1073741824.0);
  return fmt::format("{:.1f} MiB", bytes / 1048576.0);
}

std::string count_text(double count) {
  if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

int64_t color_terminal_width() {
  if (!is_terminal(STDOUT_FILENO) || no_colors_asked()) return 0;
  return static_cast<int64_t>(width_of(STDOUT_FILENO));
}

}  // namespace linea

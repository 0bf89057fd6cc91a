#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace linea {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (open_) std::fputc('\n', stderr);
}

bool Progress::due(bool last) {
  return last || watch_.seconds() - shown_at_ >= (terminal_ ? 0.25 : 5.0);
}

void Progress::show(const std::string& line) {
  shown_at_ = watch_.seconds();
  if (terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    open_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void Progress::note(const std::string& line) {
  if (open_) std::fputs("\r\x1b[K", stderr);
  open_ = false;
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
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

int64_t colour_terminal_width() {
  const char* term = std::getenv("TERM");
  if (isatty(STDOUT_FILENO) != 1 || std::getenv("NO_COLOR") != nullptr) return 0;
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace linea

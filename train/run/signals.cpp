#include "train/run/signals.h"

#include <unistd.h>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <string_view>

#include "base/error.h"

namespace linea {
namespace {

volatile std::sig_atomic_t requested = 0;
bool on_terminal = false;  // stderr, where a status line and ^C may be in the way

void on_signal(int signal) { requested = signal; }

// The first interrupt is answered at once, even in a long batch. Those within a second of it are
// ignored: a key that bounces, or one signal to the process and another to its group.
void on_interrupt(int signal) {
  constexpr std::string_view kNotice =
      "\nsaving after this batch; press again to leave without saving\n";
  static bool interrupted = false;
  static timespec first;
  const int error = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!interrupted) {
    interrupted = true;
    first = now;
    requested = signal;
    const std::string_view text = kNotice.substr(on_terminal ? 0 : 1);
    static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  } else if (static_cast<double>(now.tv_sec - first.tv_sec) +
                 1e-9 * static_cast<double>(now.tv_nsec - first.tv_nsec) >=
             1) {
    _exit(128 + signal);
  }
  errno = error;
}

// With `keep_ignored`, a signal that the parent ignores stays ignored: of nohup, or of a job in the
// background of a script.
void take(int signal, void (*handler)(int), bool keep_ignored) {
  struct sigaction action {
  }, before{};
  sigaction(signal, nullptr, &before);
  if (keep_ignored && before.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

double unit_seconds(char unit) {
  switch (unit) {
    case 'd':
      return 86400;
    case 'h':
      return 3600;
    case 'm':
      return 60;
    case 's':
      return 1;
    default:
      return 0;
  }
}

}  // namespace

void watch_signals() {
  on_terminal = isatty(STDERR_FILENO) == 1;
  take(SIGINT, on_interrupt, true);
  take(SIGHUP, on_signal, true);
  take(SIGTERM, on_signal, false);
  take(SIGUSR1, on_signal, false);
}

void ignore_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

std::string stop_signal() {
  switch (requested) {
    case 0:
      return "";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGUSR1";
  }
}

double parse_duration(const std::string& text, const char* setting) {
  if (text.empty()) return 0;
  double seconds = 0;
  const char *next = text.data(), *end = next + text.size();
  bool valid = true;
  while (valid && next != end) {
    int64_t count = 0;
    const auto [rest, error] = std::from_chars(next, end, count);
    const bool only_number = rest == end && next == text.data();
    const double unit = only_number ? 1 : rest == end ? 0 : unit_seconds(*rest);
    valid = error == std::errc() && count >= 0 && unit > 0;
    seconds += static_cast<double>(count) * unit;
    next = rest == end ? end : rest + 1;
  }
  if (!valid || seconds == 0)
    fail(ErrorKind::usage, "{} is '{}'; write it as 3h50m, 2d, 90s or a number of seconds", setting,
         text);
  return seconds;
}

}  // namespace linea

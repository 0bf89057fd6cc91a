#include "train/signals.h"

#include <unistd.h>
#include <charconv>
#include <csignal>

#include "tensor/error.h"

namespace linea {
namespace {

volatile std::sig_atomic_t requested = 0;

void on_signal(int signal) {
  if (requested != 0 && signal == SIGINT) _exit(128 + SIGINT);
  requested = signal;
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
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // the reader of the progress may exit
}

std::string stop_signal() {
  switch (requested) {
    case 0:
      return "";
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGUSR1";
  }
}

double parse_duration(const std::string& text) {
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
    fail(ErrorKind::usage, "--max-time is '{}'; write it as 3h50m, 2d, 90s or a number of seconds",
         text);
  return seconds;
}

}  // namespace linea

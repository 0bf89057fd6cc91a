#include "train/signals.h"

#include <csignal>
#include <unistd.h>

namespace linea {
namespace {

volatile std::sig_atomic_t asked = 0;

void on_signal(int signal) {
  if (asked != 0 && signal == SIGINT) _exit(128 + SIGINT);
  asked = 1;
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_asked() { return asked != 0; }

}  // namespace linea

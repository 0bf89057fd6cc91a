// Signals that stop a run, in a child process each.
#include "train/run/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/error.h"

namespace linea {
namespace {

// In the child: exits with 0 where `holds`.
[[noreturn]] void report(bool holds) { _exit(holds ? 0 : 1); }

void press_at(std::initializer_list<int> milliseconds) {
  int now = 0;
  for (const int at : milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(at - now));
    now = at;
    raise(SIGINT);
  }
}

TEST(Signals, RequestAStop) {
  for (const auto& [number, name] : {std::pair(SIGHUP, "SIGHUP"), std::pair(SIGINT, "SIGINT"),
                                     std::pair(SIGTERM, "SIGTERM"), std::pair(SIGUSR1, "SIGUSR1")})
    EXPECT_EXIT(
        {
          std::signal(number, SIG_DFL);
          watch_signals();
          const bool quiet = stop_signal().empty();
          raise(number);
          report(quiet && stop_signal() == name);
        },
        testing::ExitedWithCode(0), "")
        << name;
}

TEST(Signals, TheFirstInterruptSaysHowToLeave) {
  const auto press = [](std::initializer_list<int> milliseconds) {
    std::signal(SIGINT, SIG_DFL);
    watch_signals();
    press_at(milliseconds);
    report(stop_signal() == "SIGINT");
  };
  const char* notice = "^saving after this batch; press again to leave without saving\n$";
  EXPECT_EXIT(press({0}), testing::ExitedWithCode(0), notice);
  EXPECT_EXIT(press({0, 0, 300}), testing::ExitedWithCode(0), notice) << "a bounce is ignored";
  EXPECT_EXIT(press({0, 1100}), testing::ExitedWithCode(130), notice);
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_DFL);
        watch_signals();
        raise(SIGTERM);
        press_at({0});
        report(true);
      },
      testing::ExitedWithCode(0), notice)
      << "the first of Ctrl-C, although a stop is on its way";
}

// nohup, and a job in the background of a script.
TEST(Signals, StayIgnoredWhereTheParentIgnoresThem) {
  for (const int number : {SIGHUP, SIGINT})
    EXPECT_EXIT(
        {
          std::signal(number, SIG_IGN);
          watch_signals();
          raise(number);
          report(stop_signal().empty());
        },
        testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace linea

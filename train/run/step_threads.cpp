#include "train/run/step_threads.h"

#include <sys/resource.h>

#include <utility>

namespace linea {
namespace {

// Preemptions of a thread per second. An idle machine preempts a thread up to 20 times, a busy one
// hundreds of times.
constexpr double kBusyRate = 100;
constexpr double kWindow = 0.5;  // seconds at least, of two steps at least
constexpr double kGain = 0.95;   // of a step's seconds: what fewer threads must reach
constexpr double kPause = 20;    // between trials, in windows of the last one

}  // namespace

void StepThreads::record_step(double seconds, int64_t preemptions) {
  window_.seconds += seconds;
  window_.preemptions += preemptions;
  if (++window_.steps < 2 || window_.seconds < kWindow) return;
  const Window window = std::exchange(window_, {});
  const double step = window.seconds / static_cast<double>(window.steps);

  if (const int before = std::exchange(trial_from_, 0);
      before != 0 && step > (threads_ < before ? kGain : 1) * step_before_) {
    threads_ = before;
    wait_ = kPause * window.seconds;
    return;
  }
  wait_ -= window.seconds;
  const bool busy = static_cast<double>(window.preemptions) > kBusyRate * threads_ * window.seconds;
  const int next = busy && threads_ > 1 ? threads_ - 1 : max_threads_;
  if (wait_ > 0 || next == threads_) return;
  trial_from_ = std::exchange(threads_, next);
  step_before_ = step;
}

int64_t count_preemptions() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_nivcsw;
}

}  // namespace linea

#include "train/step_threads.h"

#include <sys/resource.h>

#include <utility>

namespace linea {
namespace {

// An idle machine preempts two threads 5 to 40 times a second, a busy one more than 1,000 times.
constexpr double kBusyRate = 200;
constexpr double kWindow = 0.5;  // seconds at least, of two steps at least
constexpr double kGain = 0.95;   // of a step's seconds: what counts as faster
constexpr double kPause = 20;    // between trials, in windows of the last one

}  // namespace

void StepThreads::record_step(double seconds, int64_t preemptions) {
  window_.seconds += seconds;
  window_.preemptions += preemptions;
  if (++window_.steps < 2 || window_.seconds < kWindow) return;
  const Window window = std::exchange(window_, {});
  const double step = window.seconds / static_cast<double>(window.steps);

  if (const int before = std::exchange(trial_from_, 0);
      before != 0 && step > kGain * step_before_) {
    threads_ = before;
    wait_ = kPause * window.seconds;
    return;
  }
  wait_ -= window.seconds;
  const bool busy = static_cast<double>(window.preemptions) > kBusyRate * window.seconds;
  const int next = busy ? threads_ - 1 : threads_ + 1;
  if (wait_ > 0 || next < 1 || next > max_threads_) return;
  trial_from_ = std::exchange(threads_, next);
  step_before_ = step;
}

int64_t count_preemptions() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_nivcsw;
}

}  // namespace linea

// How many threads a training step takes while other programs use the cores.
#pragma once

#include <cstdint>

namespace linea {

// A thread that loses its core makes the others wait at the end of each parallel region, so that
// fewer threads can be faster. While the system takes cores away, steps try one thread less, and
// keep it where that is faster; later they try all threads again. The bits of a step do not depend
// on it.
class StepThreads {
 public:
  explicit StepThreads(int max_threads) : max_threads_(max_threads), threads_(max_threads) {}

  // Threads of the next step: 1 to max_threads.
  int threads() const { return threads_; }

  // After a step with threads() threads: its seconds, and how often it was preempted, which means
  // that the system gave the core of one of its threads to another program.
  void record_step(double seconds, int64_t preemptions);

 private:
  struct Window {
    double seconds = 0;
    int64_t steps = 0, preemptions = 0;
  };

  int max_threads_, threads_;
  Window window_;           // since threads_ changed or was last considered
  int trial_from_ = 0;      // threads before the trial; 0: no trial
  double step_before_ = 0;  // seconds of a step before the trial
  double wait_ = 0;         // seconds of steps until the next trial
};

// Preemptions of all threads of this process since its start.
int64_t count_preemptions();

}  // namespace linea

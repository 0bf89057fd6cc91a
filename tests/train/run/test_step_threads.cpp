// Threads of steps on simulated machines: idle, next to other programs, and back.
#include "train/run/step_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace linea {
namespace {

// Seconds of a step of `threads` threads, and how often it is preempted.
struct Step {
  double seconds;
  int64_t preemptions;
};
using SimulatedMachine = std::function<Step(int threads)>;

Step idle(int threads) { return {0.1 / threads, 3}; }

// Each thread beyond one waits for the core that another program uses.
Step beside_a_loop(int threads) { return threads == 1 ? Step{0.1, 0} : Step{0.16, 300}; }

// As busy, but two threads are still the faster ones.
Step crowded(int threads) { return {threads == 1 ? 0.2 : 0.16, 300}; }

// The threads of each step, over `seconds` of steps.
std::vector<int> run(StepThreads& threads, const SimulatedMachine& machine, double seconds) {
  std::vector<int> taken;
  while (seconds > 0) {
    const Step step = machine(threads.threads());
    taken.push_back(threads.threads());
    threads.record_step(step.seconds, step.preemptions);
    seconds -= step.seconds;
  }
  return taken;
}

double share(const std::vector<int>& taken, int threads) {
  return static_cast<double>(std::count(taken.begin(), taken.end(), threads)) /
         static_cast<double>(taken.size());
}

TEST(StepThreads, AreAllOnAnIdleMachine) {
  StepThreads threads(4);
  EXPECT_EQ(share(run(threads, idle, 100), 4), 1);
}

TEST(StepThreads, AreFewerWhereThatIsFaster) {
  StepThreads threads(2);
  EXPECT_GT(share(run(threads, beside_a_loop, 100), 1), 0.9);
}

TEST(StepThreads, ReturnWhenTheMachineIsIdleAgain) {
  StepThreads threads(2);
  run(threads, beside_a_loop, 30);
  EXPECT_EQ(threads.threads(), 1);
  run(threads, idle, 30);
  EXPECT_EQ(share(run(threads, idle, 100), 2), 1);
}

// 90% of a step is parallel: the last of 16 threads gains less than 5%.
TEST(StepThreads, ManyReturnTogether) {
  StepThreads threads(16);
  const auto machine = [](int free) {
    return [free](int count) {
      const int used = std::min(count, free);
      return Step{0.01 + 0.09 / used * (count > free ? 2 : 1), count > free ? 1000 : 0};
    };
  };
  for (int free = 15; free >= 10; --free) run(threads, machine(free), 30);
  EXPECT_EQ(threads.threads(), 10);
  run(threads, machine(16), 30);
  EXPECT_EQ(threads.threads(), 16);
}

TEST(StepThreads, StayWhereFewerAreSlower) {
  StepThreads threads(2);
  EXPECT_GT(share(run(threads, crowded, 100), 2), 0.9);
}

TEST(StepThreads, GoDownOneByOne) {
  StepThreads threads(4);
  const auto three_loops = [](int count) { return Step{0.1 * count, count > 1 ? 1000 : 0}; };
  run(threads, three_loops, 10);
  EXPECT_EQ(threads.threads(), 1);
}

// Steps of minutes are tried too, but two of them at a time.
TEST(StepThreads, SlowStepsAreTriedInPairs) {
  StepThreads threads(2);
  const std::vector<int> taken = run(
      threads,
      [](int count) {
        return Step{100.0 * count, count > 1 ? 100000 : 0};
      },
      1000);
  EXPECT_EQ((std::vector<int>(taken.begin(), taken.begin() + 4)), (std::vector{2, 2, 1, 1}));
}

TEST(StepThreads, PreemptionsAreCounted) { EXPECT_GE(count_preemptions(), 0); }

}  // namespace
}  // namespace linea

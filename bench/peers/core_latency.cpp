// How long two cores take to hand a cache line to each other and back, ns: a virtual machine may place its cores on one
// chiplet, with one L3 cache, or on two (docs/lab-notes/threads.md).
//
//   g++ -O2 -pthread bench/peers/core_latency.cpp -o core_latency && ./core_latency [CORE CORE]
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRounds = 200000;
  const int first = argc > 2 ? std::atoi(argv[1]) : 0, second = argc > 2 ? std::atoi(argv[2]) : 1;
  std::atomic<int> turn{0};  // odd: of the second core
  const auto play = [&turn](int core, int parity) {
    pin_to(core);
    for (int round = 0; round < kRounds; ++round) {
      while (turn.load(std::memory_order_acquire) != 2 * round + parity) {
      }
      turn.store(2 * round + parity + 1, std::memory_order_release);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::thread other(play, second, 1);
  play(first, 0);
  other.join();
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - start;
  std::printf("%.0f ns from core %d to core %d and back\n", passed.count() / kRounds, first,
              second);
}

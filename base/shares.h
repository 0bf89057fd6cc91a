// How the threads of an OpenMP region share items, and what becomes of their exceptions.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>

namespace linea::cpu {

// Items [0, count), a contiguous share for each thread of a region. A thread that finishes its
// share steals single items, so a preempted thread does not delay the others.
class Shares {
 public:
  Shares(int64_t count, int64_t threads)
      : count_(count), threads_(threads), shares_(std::min(threads, kMaxShares)) {
    restart();
  }
  void restart() {
    for (int64_t share = 0; share < shares_; ++share)
      next_[share].item.store(first(share), std::memory_order_relaxed);
  }
  // body(item) for what this thread takes.
  template <typename Body>
  void each(int64_t thread, const Body& body) {
    for (int64_t i = 0; i < shares_; ++i) {
      const int64_t share = (thread * shares_ / threads_ + i) % shares_;
      const int64_t end = first(share + 1);
      std::atomic<int64_t>& next = next_[share].item;
      while (next.load(std::memory_order_relaxed) < end) {
        const int64_t item = next.fetch_add(1, std::memory_order_relaxed);
        if (item < end) body(item);
      }
    }
  }

 private:
  static constexpr int64_t kMaxShares = 32;  // more threads have one together
  struct alignas(64) Next {
    std::atomic<int64_t> item;
  };
  int64_t first(int64_t share) const { return count_ * share / shares_; }
  int64_t count_, threads_, shares_;
  std::array<Next, kMaxShares> next_;
};

// body(thread) on so many threads. The first exception, which must not leave the region in one of
// them, reaches the caller.
template <typename Body>
void on_team([[maybe_unused]] int threads, const Body& body) {
  std::atomic_flag taken{};
  std::exception_ptr first;
#pragma omp parallel num_threads(threads)
  {
    try {
      body(omp_get_thread_num());
    } catch (...) {
      if (!taken.test_and_set()) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// body(item, thread) over [0, count) on so many threads, in shares; no region opens for one.
template <typename Body>
void share_items(int64_t count, int threads, const Body& body) {
  if (threads <= 1) {
    for (int64_t item = 0; item < count; ++item) body(item, 0);
    return;
  }
  Shares shares(count, threads);
  on_team(threads,
          [&](int thread) { shares.each(thread, [&](int64_t item) { body(item, thread); }); });
}

}  // namespace linea::cpu

// Schedules the runnable threads of a block.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/emulator/settings.h"

namespace linea::emulator {

inline constexpr int kMaxThreads = 1024;

class RunQueue {
 public:
  // Makes `threads` threads runnable.
  void fill(int threads, ThreadOrder order, Random& random);
  void push(int thread);
  // At the front of the queue; like push() for random priorities.
  void push_front(int thread);
  // The next thread to run; -1: none.
  int pop() {
    if (order_ == ThreadOrder::priority) return pop_by_rank();
    if (head_ != tail_) return queue_[head_++ % kMaxThreads];
    if (started_ == threads_) return -1;
    const int thread = started_++;
    return reversed() ? threads_ - 1 - thread : thread;
  }
  bool reversed() const { return order_ == ThreadOrder::reverse; }

 private:
  int pop_by_rank();
  void set(int rank) { runnable_[static_cast<size_t>(rank) / 64] |= uint64_t{1} << (rank % 64); }

  ThreadOrder order_ = ThreadOrder::forward;
  int threads_ = 0;
  // forward, reverse: first the queue, then threads not yet started. A warp thus runs until it
  // waits for others, while its stacks stay in the cache
  int started_ = 0;
  uint32_t head_ = 0, tail_ = 0;
  std::array<uint16_t, kMaxThreads> queue_{};
  // priority: one bit per rank, and the thread of each rank
  std::array<uint64_t, kMaxThreads / 64> runnable_{};
  std::array<uint16_t, kMaxThreads> rank_of_{}, thread_at_{};
};

}  // namespace linea::emulator

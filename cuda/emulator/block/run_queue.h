// Which thread of a block goes on next.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/emulator/settings.h"

namespace linea::emulator {

inline constexpr int kMaxThreads = 1024;

class RunQueue {
 public:
  // All of `threads` can run.
  void fill(int threads, ThreadOrder order, Random& random);
  void push(int thread);
  void push_first(int thread);  // before those that wait, where their order is not left to chance
  int pop() {                   // -1: none
    if (order_ == ThreadOrder::priority) return pop_by_rank();
    if (head_ != tail_) return waiting_[head_++ % kMaxThreads];
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
  // forward, reverse: those that wait in order, then those that never ran. So a warp runs until it
  // waits for others, and its stacks stay in the cache
  int started_ = 0;
  uint32_t head_ = 0, tail_ = 0;
  std::array<uint16_t, kMaxThreads> waiting_{};
  // priority: one bit a rank, and who has it
  std::array<uint64_t, kMaxThreads / 64> runnable_{};
  std::array<uint16_t, kMaxThreads> rank_of_{}, thread_at_{};
};

}  // namespace linea::emulator

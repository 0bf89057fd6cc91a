// Which thread of a block goes on next.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/emulator/settings.h"

namespace linea::emulator {

inline constexpr int kMostThreads = 1024;

class RunQueue {
 public:
  // All of `threads` can run.
  void fill(int threads, ThreadOrder order, Random& random);
  void push(int thread);
  int pop();  // -1: none
  bool reversed() const { return order_ == ThreadOrder::reverse; }

 private:
  void set(int rank) { runnable_[static_cast<size_t>(rank) / 64] |= uint64_t{1} << (rank % 64); }

  ThreadOrder order_ = ThreadOrder::forward;
  int threads_ = 0;
  // forward, reverse: those that never ran, then the others in the order in which they came
  int started_ = 0;
  uint32_t head_ = 0, tail_ = 0;
  std::array<uint16_t, kMostThreads> waiting_{};
  // priority: one bit a rank, and who has it
  std::array<uint64_t, kMostThreads / 64> runnable_{};
  std::array<uint16_t, kMostThreads> rank_of_{}, thread_at_{};
};

}  // namespace linea::emulator

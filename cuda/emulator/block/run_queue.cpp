#include "cuda/emulator/block/run_queue.h"

#include <bit>
#include <numeric>
#include <utility>

namespace linea::emulator {
namespace {

template <size_t kCount>
void shuffle(std::array<uint16_t, kCount>& numbers, int count, Random& random) {
  std::iota(numbers.begin(), numbers.begin() + count, uint16_t{0});
  for (int i = count; i > 1; --i)
    std::swap(numbers[static_cast<size_t>(i - 1)], numbers[random.below(static_cast<uint32_t>(i))]);
}

}  // namespace

void RunQueue::fill(int threads, ThreadOrder order, Random& random) {
  order_ = order;
  threads_ = threads;
  started_ = 0;
  head_ = tail_ = 0;
  if (order != ThreadOrder::priority) return;
  runnable_ = {};
  std::array<uint16_t, kMaxThreads / 32> warps;
  std::array<uint16_t, 32> lanes;
  shuffle(warps, (threads + 31) / 32, random);
  int rank = 0;
  for (int w = 0; w < (threads + 31) / 32; ++w) {
    shuffle(lanes, 32, random);
    for (const uint16_t lane : lanes) {
      const int thread = warps[static_cast<size_t>(w)] * 32 + lane;
      if (thread >= threads) continue;
      rank_of_[static_cast<size_t>(thread)] = static_cast<uint16_t>(rank);
      thread_at_[static_cast<size_t>(rank)] = static_cast<uint16_t>(thread);
      set(rank++);
    }
  }
}

void RunQueue::push(int thread) {
  if (order_ == ThreadOrder::priority)
    set(rank_of_[static_cast<size_t>(thread)]);
  else
    queue_[tail_++ % kMaxThreads] = static_cast<uint16_t>(thread);
}

void RunQueue::push_front(int thread) {
  if (order_ == ThreadOrder::priority)
    push(thread);
  else
    queue_[--head_ % kMaxThreads] = static_cast<uint16_t>(thread);
}

int RunQueue::pop_by_rank() {
  for (size_t word = 0; word < runnable_.size(); ++word) {
    if (runnable_[word] == 0) continue;
    const int bit = std::countr_zero(runnable_[word]);
    runnable_[word] &= runnable_[word] - 1;
    return thread_at_[word * 64 + static_cast<size_t>(bit)];
  }
  return -1;
}

}  // namespace linea::emulator

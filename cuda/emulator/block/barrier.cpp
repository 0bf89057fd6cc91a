// Block barriers.
#include <cstring>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {

int Block::arrive_at_barrier(bool predicate, const char* function, std::source_location location) {
  Thread& thread = current();
  thread.state = ThreadState::at_barrier;
  thread.function = function;
  thread.location = location;
  num_true_ += predicate;
  if (++num_at_barrier_ == num_live_) release_barrier();
  yield();
  return thread.num_true;
}

void Block::release_barrier() {
  const Thread* first = nullptr;
  for (int i = 0; i < num_threads_; ++i) {
    const int number = queue_.reversed() ? num_threads_ - 1 - i : i;
    Thread& thread = threads_[static_cast<size_t>(number)];
    if (thread.state != ThreadState::at_barrier) continue;
    if (first == nullptr) first = &thread;
    const char *here = thread.location.file_name(), *there = first->location.file_name();
    if (thread.location.line() != first->location.line() ||
        (here != there && std::strcmp(here, there) != 0))
      fatal("divergent barrier: threads wait in {} at {} and in {} at {}", first->function,
            to_string(first->location), thread.function, to_string(thread.location));
    thread.num_true = num_true_;
    thread.state = ThreadState::ready;
    queue_.push(number);
  }
  if (num_live_ < num_threads_)
    fatal("{} threads of the block exited before {} at {}, where the others wait",
          num_threads_ - num_live_, first->function, to_string(first->location));
  num_at_barrier_ = num_true_ = 0;
  if (checker != nullptr) checker->on_block_barrier();
}

int block_barrier(bool predicate, const char* function, std::source_location location) {
  const EmulatorScope scope;
  return block.arrive_at_barrier(predicate, function, location);
}

}  // namespace linea::emulator

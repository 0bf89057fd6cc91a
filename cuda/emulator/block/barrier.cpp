// Barriers of a block.
#include <cstring>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {

int Block::meet_at_barrier(bool counted, const char* what, Place place) {
  Thread& thread = current();
  thread.state = ThreadState::at_barrier;
  thread.what = what;
  thread.place = place;
  counted_ += counted;
  if (++at_barrier_ == alive_) open_barrier();
  run_others();
  return thread.counted;
}

void Block::open_barrier() {
  const Thread* first = nullptr;
  for (int i = 0; i < count_; ++i) {
    const int number = queue_.reversed() ? count_ - 1 - i : i;
    Thread& thread = threads_[static_cast<size_t>(number)];
    if (thread.state != ThreadState::at_barrier) continue;
    if (first == nullptr) first = &thread;
    const char *here = thread.place.file_name(), *there = first->place.file_name();
    if (thread.place.line() != first->place.line() ||
        (here != there && std::strcmp(here, there) != 0))
      stop("divergent barrier: threads meet in {} at {}:{} and {} at {}:{}", first->what,
           first->place.file_name(), first->place.line(), thread.what, thread.place.file_name(),
           thread.place.line());
    thread.counted = counted_;
    thread.state = ThreadState::ready;
    queue_.push(number);
  }
  if (alive_ < count_)
    stop("{} threads of the block ended before {} at {}:{}, to which the others come",
         count_ - alive_, first->what, first->place.file_name(), first->place.line());
  at_barrier_ = counted_ = 0;
  if (checker != nullptr) checker->block_met();
}

int block_barrier(bool counted, const char* what, Place place) {
  const OutsideKernel outside;
  return block.meet_at_barrier(counted, what, place);
}

}  // namespace linea::emulator

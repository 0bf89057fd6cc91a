#include "cuda/emulator/block/block.h"

#include <map>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace linea::emulator {

bool in_kernel = false;
Block block;
Checker* checker = nullptr;

void note_access(const void* data, size_t bytes, Access access, const void* code) {
  if (checker != nullptr) checker->touches(data, bytes, access, code);
}

void Block::begin(const Launch& launch) {
  launch_ = &launch;
  blockDim = launch.block;
  gridDim = launch.grid;
  count_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  if (threads_.size() < static_cast<size_t>(count_)) threads_.resize(static_cast<size_t>(count_));
  uint3 index{};
  for (int i = 0; i < count_; ++i) {
    threads_[static_cast<size_t>(i)].index = index;
    if (++index.x < launch.block.x) continue;
    index.x = 0;
    if (++index.y < launch.block.y) continue;
    index.y = 0;
    ++index.z;
  }
  living_.resize(static_cast<size_t>(count_ + 31) / 32);
  arrived_.resize(living_.size());
  shared_.begin(launch.shared_bytes);
}

void Block::run(uint3 index, Random random) {
  blockIdx = index;
  alive_ = count_;
  at_barrier_ = counted_ = 0;
  for (size_t warp = 0; warp < living_.size(); ++warp) {
    const int lanes = count_ - static_cast<int>(warp) * 32;
    living_[warp] = lanes >= 32 ? kFullMask : (1u << lanes) - 1;
    arrived_[warp] = 0;
  }
  for (int i = 0; i < count_; ++i) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    thread.state = ThreadState::fresh;
    thread.pieces = 0;
    thread.copies.clear();
    thread.copy_group = 0;
  }
  queue_.fill(count_, settings().threads, random);
  if (checker != nullptr) checker->block_begins();

  const int first = queue_.pop();
  current_fiber_ = threads_[static_cast<size_t>(first)].fiber = idle_fiber();
  become(first);
  Fiber::change(host_, *current_fiber_);
  idle_fibers_.push_back(current_fiber_);
  current_ = -1;
  shared_.end_block();
}

void Block::end() { launch_ = nullptr; }

// ---- fibers ----

Fiber* Block::idle_fiber() {
  if (idle_fibers_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(fiber_main));
    return fibers_.back().get();
  }
  Fiber* const fiber = idle_fibers_.back();
  idle_fibers_.pop_back();
  return fiber;
}

void Block::become(int thread) {
  current_ = thread;
  Thread& now = current();
  now.state = ThreadState::ready;
  threadIdx = now.index;
  if (checker == nullptr) return;
  checker->thread_runs(thread, current_fiber_->stack(), current_fiber_->stack_bytes());
}

void Block::fiber_main() { block.run_threads(); }

// Threads that end one after the other share a fiber, so that those that wait for nobody cost no
// switch.
void Block::run_threads() {
  current_fiber_->started();
  for (;;) {
    in_kernel = true;
    launch_->run(launch_->arguments.get());
    in_kernel = false;
    end_thread();
    Fiber& mine = *current_fiber_;
    if (alive_ == 0) {
      Fiber::change(mine, host_);  // comes back for the first thread of another block
      continue;
    }
    const int next = next_thread();
    Thread& thread = threads_[static_cast<size_t>(next)];
    if (thread.state == ThreadState::fresh) {
      thread.fiber = current_fiber_;
      become(next);
      continue;
    }
    idle_fibers_.push_back(current_fiber_);
    current_fiber_ = thread.fiber;
    become(next);
    Fiber::change(mine, *current_fiber_);
  }
}

// ---- whose turn it is ----

int Block::next_thread() {
  const int next = queue_.pop();
  if (next < 0) report_deadlock();
  return next;
}

// The running thread waits, or stands in the queue: returns when it is its turn again.
void Block::run_others() {
  const int waits = current_;
  Fiber& left = *current_fiber_;
  const int next = next_thread();
  Thread& thread = threads_[static_cast<size_t>(next)];
  if (thread.state == ThreadState::fresh) thread.fiber = idle_fiber();
  current_fiber_ = thread.fiber;
  become(next);
  if (next != waits) Fiber::change(left, *current_fiber_);
}

void Block::end_thread() {
  Thread& thread = current();
  if (!thread.copies.empty())
    stop("a thread ends with {} copies by cp.async that it never waited for", thread.copies.size());
  thread.state = ThreadState::ended;
  --alive_;
  const int warp = current_ / 32;
  unsigned& living = living_[static_cast<size_t>(warp)];
  living &= ~(1u << lane());
  if (at_barrier_ > 0 && at_barrier_ == alive_) open_barrier();
  // What the others of the warp wait for may now be complete.
  for (unsigned lanes = arrived_[static_cast<size_t>(warp)]; lanes != 0; lanes &= lanes - 1) {
    const unsigned first = lanes & -lanes;
    if ((arrived_[static_cast<size_t>(warp)] & first) != 0)
      complete_warp(warp, threads_[static_cast<size_t>(warp * 32 + __builtin_ctz(lanes))]);
  }
}

// ---- what is said when no thread can go on ----

void Block::report_deadlock() {
  std::map<std::string, std::vector<int>> waiting;
  for (int i = 0; i < count_; ++i) {
    const Thread& thread = threads_[static_cast<size_t>(i)];
    std::string text = "ended";
    if (thread.state != ThreadState::ended)
      text = fmt::format("wait in {} at {}:{}", thread.what, thread.place.file_name(),
                         thread.place.line());
    if (thread.state == ThreadState::in_warp) text += fmt::format(" with mask {:08x}", thread.mask);
    waiting[text].push_back(i);
  }
  std::string lines;
  for (const auto& [text, threads] : waiting)
    lines += fmt::format("\n    {} threads ({} to {}) {}", threads.size(), threads.front(),
                         threads.back(), text);
  stop("deadlock: no thread of the block can go on{}", lines);
}

}  // namespace linea::emulator

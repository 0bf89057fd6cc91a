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

void record_access(const void* data, size_t bytes, Access access, const void* code, int lane) {
  if (checker != nullptr) checker->on_access(data, bytes, access, code, lane);
}

void Block::begin(const Launch& launch) {
  launch_ = &launch;
  blockDim = launch.block;
  gridDim = launch.grid;
  num_threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  if (threads_.size() < static_cast<size_t>(num_threads_))
    threads_.resize(static_cast<size_t>(num_threads_));
  uint3 index{};
  for (int i = 0; i < num_threads_; ++i) {
    threads_[static_cast<size_t>(i)].index = index;
    if (++index.x < launch.block.x) continue;
    index.x = 0;
    if (++index.y < launch.block.y) continue;
    index.y = 0;
    ++index.z;
  }
  live_lanes_.resize(static_cast<size_t>(num_threads_ + 31) / 32);
  arrived_.resize(live_lanes_.size());
  shared_.begin(launch.shared_bytes);
}

void Block::run(uint3 index, Random random) {
  blockIdx = index;
  num_live_ = num_threads_;
  num_at_barrier_ = num_true_ = 0;
  for (size_t warp = 0; warp < live_lanes_.size(); ++warp) {
    const int lanes = num_threads_ - static_cast<int>(warp) * 32;
    live_lanes_[warp] = lanes >= 32 ? kFullMask : (1u << lanes) - 1;
    arrived_[warp] = 0;
  }
  for (int i = 0; i < num_threads_; ++i) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    thread.state = ThreadState::not_started;
    thread.num_shared_arrays = 0;
    thread.copies.clear();
    thread.copy_group = 0;
  }
  queue_.fill(num_threads_, settings().thread_order, random);
  if (checker != nullptr) checker->on_block_start();

  const int first = queue_.pop();
  running_fiber_ = threads_[static_cast<size_t>(first)].fiber = idle_fiber();
  resume(first);
  Fiber::switch_to(host_, *running_fiber_);
  idle_fibers_.push_back(running_fiber_);
  current_ = -1;
  if (checker != nullptr) checker->on_block_end();
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

void Block::resume(int thread) {
  current_ = thread;
  Thread& now = current();
  now.state = ThreadState::ready;
  threadIdx = now.index;
  if (checker == nullptr) return;
  checker->on_thread_switch(thread, running_fiber_->stack(), running_fiber_->stack_bytes());
}

void Block::fiber_main() { block.run_threads(); }

// A fiber runs threads until one has to wait: threads that never wait need no context switch.
void Block::run_threads() {
  running_fiber_->finish_switch();
  for (;;) {
    in_kernel = true;
    launch_->run(launch_->arguments.get());
    in_kernel = false;
    exit_thread();
    Fiber& left = *running_fiber_;
    if (num_live_ == 0) {
      Fiber::switch_to(left, host_);  // returns for the first thread of another block
      continue;
    }
    const int next = next_thread();
    Thread& thread = threads_[static_cast<size_t>(next)];
    if (thread.state == ThreadState::not_started) {
      thread.fiber = running_fiber_;
      resume(next);
      continue;
    }
    idle_fibers_.push_back(running_fiber_);
    running_fiber_ = thread.fiber;
    resume(next);
    Fiber::switch_to(left, *running_fiber_);
  }
}

// ---- scheduling ----

int Block::next_thread() {
  const int next = queue_.pop();
  if (next < 0) report_deadlock();
  return next;
}

// Runs other threads until the scheduler picks the calling thread again.
void Block::yield() {
  const int self = current_;
  Fiber& left = *running_fiber_;
  const int next = next_thread();
  Thread& thread = threads_[static_cast<size_t>(next)];
  if (thread.state == ThreadState::not_started) thread.fiber = idle_fiber();
  running_fiber_ = thread.fiber;
  resume(next);
  if (next != self) Fiber::switch_to(left, *running_fiber_);
}

void Block::exit_thread() {
  Thread& thread = current();
  if (!thread.copies.empty())
    fatal("a thread exits without waiting for {} cp.async copies", thread.copies.size());
  thread.state = ThreadState::exited;
  --num_live_;
  const int warp = current_ / 32;
  unsigned& living = live_lanes_[static_cast<size_t>(warp)];
  living &= ~(1u << lane());
  if (num_at_barrier_ > 0 && num_at_barrier_ == num_live_) release_barrier();
  // This may complete operations that other lanes of the warp wait for.
  for (unsigned lanes = arrived_[static_cast<size_t>(warp)]; lanes != 0; lanes &= lanes - 1) {
    const unsigned first = lanes & -lanes;
    if ((arrived_[static_cast<size_t>(warp)] & first) != 0)
      complete_warp_operation(warp,
                              threads_[static_cast<size_t>(warp * 32 + __builtin_ctz(lanes))]);
  }
}

// ---- deadlocks ----

void Block::report_deadlock() {
  std::map<std::string, std::vector<int>> waiting;
  for (int i = 0; i < num_threads_; ++i) {
    const Thread& thread = threads_[static_cast<size_t>(i)];
    std::string text = "exited";
    if (thread.state != ThreadState::exited)
      text = fmt::format("wait in {} at {}", thread.function, to_string(thread.location));
    if (thread.state == ThreadState::in_warp) text += fmt::format(" with mask {:08x}", thread.mask);
    waiting[text].push_back(i);
  }
  std::string lines;
  for (const auto& [text, threads] : waiting)
    lines += fmt::format("\n    {} threads ({} to {}) {}", threads.size(), threads.front(),
                         threads.back(), text);
  fatal("deadlock: no thread of the block can run{}", lines);
}

}  // namespace linea::emulator

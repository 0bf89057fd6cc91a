// The running block. Each of its threads is a fiber. Only one fiber runs at a time, until it waits
// for other threads or exits, so the scheduling order alone determines what a kernel does.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "cuda/emulator/block/fiber.h"
#include "cuda/emulator/block/run_queue.h"
#include "cuda/emulator/block/shared_memory.h"
#include "cuda/emulator/device/collectives.h"
#include "cuda/emulator/launch.h"

namespace linea::emulator {

// True while kernel code runs; the checker ignores all other accesses.
extern bool in_kernel;

// Emulator code called from a kernel: clears in_kernel for its scope.
class EmulatorScope {
 public:
  EmulatorScope() { in_kernel = false; }
  ~EmulatorScope() { in_kernel = true; }
  EmulatorScope(const EmulatorScope&) = delete;
  EmulatorScope& operator=(const EmulatorScope&) = delete;
};

enum class ThreadState : uint8_t { not_started, ready, at_barrier, in_warp, exited };

// A warp-wide operation, run by the last lane that arrives. `arguments[lane]`: the argument of each
// lane of `lanes`.
using WarpOperation = void (*)(void* const* arguments, unsigned lanes);

// A pending cp.async copy.
struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes, zeros;
  size_t group;
};

// The fields that a context switch reads come first, in one cache line.
struct alignas(64) Thread {
  uint3 index{};
  ThreadState state = ThreadState::not_started;
  Fiber* fiber = nullptr;
  const char* function = nullptr;  // the function it waits in, called at `location`
  std::source_location location{};
  WarpOperation operation = nullptr;
  void* argument = nullptr;
  unsigned mask = 0;  // of the warp operation

  int num_true = 0;              // the result of the barrier: threads whose predicate was true
  size_t num_shared_arrays = 0;  // dynamic shared arrays taken so far
  std::vector<AsyncCopy> copies;
  size_t copy_group = 0;
};

class Block {
 public:
  // Prepares for the blocks of a launch.
  void begin(const Launch& launch);
  void run(uint3 index, Random random);
  void end();

  bool running() const { return current_ >= 0; }
  const Launch& launch() const { return *launch_; }
  Thread& current() { return threads_[static_cast<size_t>(current_)]; }
  int lane() const { return current_ & 31; }
  unsigned live_lanes() const { return live_lanes_[static_cast<size_t>(current_) / 32]; }
  SharedMemory& shared() { return shared_; }

  int arrive_at_barrier(bool predicate, const char* function, std::source_location location);
  void run_warp_operation(unsigned mask, WarpOperation operation, void* argument,
                          const char* function, std::source_location location);

 private:
  static void fiber_main();
  void run_threads();
  void resume(int thread);
  void exit_thread();
  int next_thread();
  Fiber* idle_fiber();
  void yield();
  void release_barrier();
  void complete_warp_operation(int warp, const Thread& arrived);
  [[noreturn]] void report_deadlock();

  const Launch* launch_ = nullptr;
  std::vector<Thread> threads_;
  int num_threads_ = 0, num_live_ = 0, current_ = -1;
  RunQueue queue_;
  SharedMemory shared_;
  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_fibers_;
  Fiber* running_fiber_ = nullptr;
  int num_at_barrier_ = 0, num_true_ = 0;
  std::vector<unsigned> live_lanes_, arrived_;  // lane masks of each warp
};

extern Block block;

}  // namespace linea::emulator

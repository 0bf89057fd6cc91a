// The block that runs. Each of its threads is a fiber, and only one of all runs at a time, until it
// waits for others or ends: so what a kernel does depends on the order of its threads and on
// nothing else.
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

// Whether a kernel's own code runs: the checker looks at nothing else.
extern bool in_kernel;

// While one lives, the emulator runs on behalf of a kernel.
class OutsideKernel {
 public:
  OutsideKernel() { in_kernel = false; }
  ~OutsideKernel() { in_kernel = true; }
  OutsideKernel(const OutsideKernel&) = delete;
  OutsideKernel& operator=(const OutsideKernel&) = delete;
};

enum class ThreadState : uint8_t { fresh, ready, at_barrier, in_warp, ended };

// What a warp does together. `arguments[lane]` is what each lane of `lanes` brought; the last that
// came runs this.
using WarpOperation = void (*)(void* const* arguments, unsigned lanes);

// A copy by cp.async that no one has waited for.
struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes, zeros;
  size_t group;
};

// First what each switch reads, in one line of the cache.
struct alignas(64) Thread {
  uint3 index{};
  ThreadState state = ThreadState::fresh;
  Fiber* fiber = nullptr;
  const char* what = nullptr;  // it waits for, and where
  Place place{};
  WarpOperation operation = nullptr;
  void* argument = nullptr;
  unsigned mask = 0;  // of the warp's operation

  int counted = 0;    // what the barrier returns
  size_t pieces = 0;  // of shared memory that it took
  std::vector<AsyncCopy> copies;
  size_t copy_group = 0;
};

class Block {
 public:
  // All that blocks of a launch have in common.
  void begin(const Launch& launch);
  void run(uint3 index, Random random);
  void end();

  bool running() const { return current_ >= 0; }
  const Launch& launch() const { return *launch_; }
  Thread& current() { return threads_[static_cast<size_t>(current_)]; }
  int lane() const { return current_ & 31; }
  int thread_number() const { return current_; }
  unsigned living_lanes() const { return living_[static_cast<size_t>(current_) / 32]; }
  SharedMemory& shared() { return shared_; }

  int meet_at_barrier(bool counted, const char* what, Place place);
  void meet_in_warp(unsigned mask, WarpOperation operation, void* argument, const char* what,
                    Place place);

 private:
  static void fiber_main();
  void run_threads();
  void become(int thread);
  void end_thread();
  int next_thread();
  Fiber* idle_fiber();
  void run_others();
  void open_barrier();
  void complete_warp(int warp, const Thread& arrived);
  [[noreturn]] void report_deadlock();

  const Launch* launch_ = nullptr;
  std::vector<Thread> threads_;
  int count_ = 0, alive_ = 0, current_ = -1;
  RunQueue queue_;
  SharedMemory shared_;
  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_fibers_;
  Fiber* current_fiber_ = nullptr;
  int at_barrier_ = 0, counted_ = 0;
  std::vector<unsigned> living_, arrived_;  // lanes of each warp
};

extern Block block;

}  // namespace linea::emulator

// The device that this process uses, and its memory.
#pragma once

#include "cuda/queue.h"
#include "tensor/caching_allocator.h"
#include "tensor/kernels.h"

namespace linea::cuda {

// Makes `ctx` one of the device that it names: its queue, its StepParams. One process uses one
// device. Error: ErrorKind::usage where the machine has no such device.
void start(Context& ctx);
// The queue of the device that was started.
const Queue& default_queue();

Allocator& allocator();
// While one lives, this thread's memory comes from a pool of its own, whose blocks no one else ever
// gets: what was recorded writes into them again. The pool outlives it. Memory goes back to where
// it came from.
class PoolScope {
 public:
  explicit PoolScope(CachingAllocator& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  CachingAllocator* before_;
};
// Never destroyed: tensors may outlive what was recorded. Given back, its cache is the device's
// again, and it serves the next who asks for one.
CachingAllocator& take_pool();
void give_back_pool(CachingAllocator& pool);
// To be called when what was asked of the device is done again, not recorded.
void give_back_what_waited();
MemoryUse memory_use();
MemoryLimit memory_limit();
void reset_peak();
void release_cache();

// A line each: "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.7 GiB".
std::vector<std::string> devices();

void clear(Context&, void* to, size_t bytes);
void copy(Context&, void* to, const void* from, size_t bytes);
// After these two the host's memory may be used again at once.
void read(Context&, void* host, const void* from, size_t bytes);
void write(Context&, void* to, const void* host, size_t bytes);
void wait(Context&);

}  // namespace linea::cuda

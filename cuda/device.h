// The CUDA device of this process, and its memory.
#pragma once

#include "cuda/queue.h"
#include "tensor/backend.h"
#include "tensor/caching_allocator.h"

namespace linea::cuda {

// Sets the queue and StepParams of `ctx` for the device it names. A process uses only one device.
// Error: ErrorKind::usage if the machine has no such device.
void start(Context& ctx);
// The queue of the device after start().
const Queue& default_queue();

Allocator& allocator();
// For its scope, this thread allocates from a separate pool, whose blocks are never used by others:
// captured graphs write to them on each replay. The pool outlives the scope. Memory returns to the
// pool it came from.
class PoolScope {
 public:
  explicit PoolScope(CachingAllocator& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  CachingAllocator* before_;
};
// Pools are never destroyed: tensors may outlive a graph. give_back_pool returns the pool's cached
// memory to the device and makes the pool available to the next take_pool.
CachingAllocator& take_pool();
void give_back_pool(CachingAllocator& pool);
// Frees the blocks that were released during capture; call it after the capture has ended.
void give_back_what_waited();

// One line per device: "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.7 GiB".
std::vector<std::string> devices();

void clear(Context&, void* to, size_t bytes);
void copy(Context&, void* to, const void* from, size_t bytes);
// The host memory may be reused when these two return.
void read(Context&, void* host, const void* from, size_t bytes);
void write(Context&, void* to, const void* host, size_t bytes);
void wait(Context&);

// Records steps of work as CUDA graphs.
std::unique_ptr<GraphRecorder> make_graph_recorder(Context& ctx);

}  // namespace linea::cuda

// The device that this process uses, and its memory.
#pragma once

#include "cuda/queue.h"
#include "tensor/kernels.h"
#include "tensor/memory_report.h"

namespace linea::cuda {

// Makes `ctx` one of the device that it names: its queue, its StepParams. One process uses one device.
// Error: ErrorKind::usage where the machine has no such device.
void start(Context& ctx);

Allocator& allocator();

void clear(Context&, void* to, size_t bytes);
void copy(Context&, void* to, const void* from, size_t bytes);
// After these two the host's memory may be used again at once.
void read(Context&, void* host, const void* from, size_t bytes);
void write(Context&, void* to, const void* host, size_t bytes);

}  // namespace linea::cuda

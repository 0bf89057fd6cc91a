// The memory pool, and pinned host memory.
#pragma once

#include <cstddef>

namespace linea::emulator {

// Shrinks the pool to its release threshold, as a GPU does at each synchronization.
void release_unused_pool_memory();

bool is_pinned(const void* address);

}  // namespace linea::emulator

// Who holds how much of the device, and which memory of the host is pinned.
#pragma once

#include <cstddef>

namespace linea::emulator {

// What a pool does when the host has waited: gives back what its release threshold does not let it
// keep.
void release_unused_pool_memory();

bool is_pinned(const void* address);

}  // namespace linea::emulator

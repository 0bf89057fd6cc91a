// cp.async: asynchronous copies from global to shared memory.
#pragma once

#include <cstddef>
#include <source_location>

namespace linea::emulator {

// Copies bytes - zeros bytes and clears the last `zeros`. The contents of `to` are undefined until
// the wait.
void copy_async(void* to, const void* from, size_t bytes, size_t zeros,
                std::source_location location);
// Ends a group of copies.
void commit_copies();
// Waits for all groups but the `pending` newest.
void wait_for_copies(size_t pending);

}  // namespace linea::emulator

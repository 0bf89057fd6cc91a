// cp.async: copies from global to shared memory that a thread waits for later.
#pragma once

#include <cstddef>
#include <source_location>

namespace linea::emulator {

// The last `zeros` of the bytes are not read but cleared. What is at `to` until the wait is
// undefined.
void copy_async(void* to, const void* from, size_t bytes, size_t zeros, std::source_location place);
void commit_copies();                // ends a group of copies
void wait_for_copies(size_t newer);  // for all groups but so many of the newest

}  // namespace linea::emulator

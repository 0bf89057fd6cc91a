// Replaces the toolkit's header: cp.async on the emulator.
#pragma once

#include "cuda/emulator/device/async_copy.h"

inline void __pipeline_memcpy_async(
    void* to, const void* from, size_t bytes, size_t zeros = 0,
    std::source_location location = std::source_location::current()) {
  linea::emulator::copy_async(to, from, bytes, zeros, location);
}

inline void __pipeline_commit() { linea::emulator::commit_copies(); }
inline void __pipeline_wait_prior(size_t pending) { linea::emulator::wait_for_copies(pending); }

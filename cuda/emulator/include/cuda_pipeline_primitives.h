// In place of the toolkit's header: cp.async by the emulator.
#pragma once

#include "cuda/emulator/device/async_copy.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0,
                                    std::source_location place = std::source_location::current()) {
  linea::emulator::copy_async(to, from, bytes, zeros, place);
}

inline void __pipeline_commit() { linea::emulator::commit_copies(); }
inline void __pipeline_wait_prior(size_t newer) { linea::emulator::wait_for_copies(newer); }

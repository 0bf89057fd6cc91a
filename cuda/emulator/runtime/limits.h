// The emulated device: what a GPU of compute capability 9.0 allows.
#pragma once

#include <cuda_runtime.h>

namespace linea::emulator {

inline constexpr int kMajor = 9, kMinor = 0;
inline constexpr int kProcessors = 4;
inline constexpr int kMaxThreadsOfBlock = 1024, kThreadsOfProcessor = 2048;
inline constexpr int kSharedBytes = 48 << 10;            // of a block
inline constexpr int kSharedBytesOnRequest = 227 << 10;  // of a block whose kernel asked for it
inline constexpr int kSharedBytesOfProcessor = 228 << 10, kSharedBytesOfSystem = 1 << 10;
inline constexpr dim3 kMaxThreadsEach{1024, 1024, 64};
inline constexpr dim3 kMaxBlocks{2147483647, 65535, 65535};

}  // namespace linea::emulator

// Limits of the emulated device, as of compute capability 9.0.
#pragma once

#include <cuda_runtime.h>

namespace linea::emulator {

inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kSharedBytes = 48 << 10;        // per block
inline constexpr int kSharedBytesOptIn = 227 << 10;  // per block, with cudaFuncSetAttribute
inline constexpr dim3 kMaxBlockDim{1024, 1024, 64};
inline constexpr dim3 kMaxGridDim{2147483647, 65535, 65535};

}  // namespace linea::emulator

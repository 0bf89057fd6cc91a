// What kernels and their launches need, the same for nvcc and for g++ with the emulator: launches
// and calls that throw, and a block's dynamic shared memory. Only this header and ptx.h know which
// of the two compiles them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

#ifdef LINEA_CUDA_EMULATED
#include "cuda/emulator/launch.h"
#endif

namespace linea::cuda {

// ---- errors ---- (cuda/errors.cpp: nvcc would read fmt's headers for them)

// Error: `what` failed, with CUDA's name and words for it; ErrorKind::memory where there was none.
void check_cuda(cudaError_t error, const char* what);
// Error: ErrorKind::usage with this text.
[[noreturn]] void refuse(const char* text);
// Error: a kernel was not launched, with what it asked for.
void check_launch(cudaError_t error, dim3 grid, dim3 block, size_t shared_bytes);

// ---- launches ----

// Starts `kernel` on `grid` blocks of `block` threads. Error: what the device refuses, with the
// sizes.
template <typename... Params>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, std::type_identity_t<Params>... arguments) {
#ifdef LINEA_CUDA_EMULATED
  const cudaError_t error =
      emulator::launch_kernel(kernel, grid, block, shared_bytes, stream, arguments...);
#else
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  const cudaError_t error =
      cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers);
#endif
  check_launch(error, grid, block, shared_bytes);
}

// A kernel needs this before it is launched with more than 48 KiB of dynamic shared memory. What it
// was allowed is never lowered: launches that were recorded keep it. `allowed`: the kernel's own, 0
// at first.
template <typename... Params>
void allow_shared_bytes(void (*kernel)(Params...), size_t bytes, size_t& allowed) {
  if (bytes <= allowed) return;
  check_cuda(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "allowing a kernel its shared memory");
  allowed = bytes;
}

// ---- dynamic shared memory ----

inline constexpr size_t kSharedAlignment = 128;

// What a piece of `count` elements takes of a block's dynamic shared memory: the host adds these up
// for its launch.
template <typename T>
constexpr __host__ __device__ size_t shared_bytes(size_t count) {
  return (count * sizeof(T) + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

#ifndef LINEA_CUDA_EMULATED
extern __shared__ __align__(128) unsigned char linea_dynamic_shared[];
#endif

// Cuts a block's dynamic shared memory into pieces. Every thread takes the same pieces in the same
// order.
class SharedMemory {
 public:
  // `count` elements that no one has written.
  template <typename T>
  __device__ __forceinline__ T* take(size_t count,
                                     std::source_location place = std::source_location::current()) {
#ifdef LINEA_CUDA_EMULATED
    return static_cast<T*>(emulator::take_shared(count * sizeof(T), place));
#else
    T* piece = reinterpret_cast<T*>(linea_dynamic_shared + taken_);
    taken_ += shared_bytes<T>(count);
    return piece;
#endif
  }

 private:
  size_t taken_ = 0;
};

}  // namespace linea::cuda

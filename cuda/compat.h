// Launches, error checks and dynamic shared memory, the same for nvcc and for g++ with the
// emulator. Only this header and ptx.h depend on the compiler.
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

// ---- errors ---- (in cuda/errors.cpp, so that nvcc does not parse fmt's headers)

// Error: `what` failed, with CUDA's error name and text; ErrorKind::memory if out of memory.
void check_cuda(cudaError_t error, const char* what);
// Error: ErrorKind::usage with this text.
[[noreturn]] void refuse(const char* text);
// Error: a launch failed, with its sizes.
void check_launch(cudaError_t error, dim3 grid, dim3 block, size_t shared_bytes);

// ---- launches ----

// Launches `kernel` on `grid` blocks of `block` threads. Error: the launch is refused, with its
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

// ---- dynamic shared memory ----

inline constexpr size_t kSharedAlignment = 128;

// The dynamic shared memory that an array of `count` elements takes; the host adds these up for its
// launch.
template <typename T>
constexpr __host__ __device__ size_t shared_bytes(size_t count) {
  return (count * sizeof(T) + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

#ifndef LINEA_CUDA_EMULATED
extern __shared__ __align__(128) unsigned char linea_dynamic_shared[];
#endif

// Splits a block's dynamic shared memory into arrays. Every thread takes the same arrays in the
// same order.
class SharedMemory {
 public:
  // `count` uninitialized elements.
  template <typename T>
  __device__ __forceinline__ T* take(
      size_t count, std::source_location location = std::source_location::current()) {
#ifdef LINEA_CUDA_EMULATED
    return static_cast<T*>(emulator::take_shared(count * sizeof(T), location));
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

// How kernels are launched and share memory under both compilers: nvcc, and g++ with the emulator. nvcc cannot read
// fmt's headers, so files with kernels report errors by the two functions here.
#pragma once

#include <cuda_runtime.h>

namespace linea::cuda {

// Error: "what: what CUDA says", unless all went well.
void check_cuda(cudaError_t error, const char* what);
// Error: ErrorKind::usage with this text.
[[noreturn]] void refuse(const char* text);

template <class... P, class... A>
inline void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, A&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, P(args)...), "a kernel was not started");
}

// Splits a block's dynamic shared memory.
class SharedMemory {
 public:
  template <typename T>
  __device__ T* take(size_t count) {
#ifdef CUDA_EMU
    return reinterpret_cast<T*>(emu::smem_take(count * sizeof(T), 128, __builtin_FILE(), __builtin_LINE()));
#else
    extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
    used_ = (used_ + 127) / 128 * 128;
    T* piece = reinterpret_cast<T*>(dynamic_shared_memory + used_);
    used_ += count * sizeof(T);
    return piece;
#endif
  }

 private:
  size_t used_ = 0;
};

}  // namespace linea::cuda

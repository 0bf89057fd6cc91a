// A device's queue, which runs its operations in order: a stream, and cuBLAS on it.
#pragma once

#include <cublas_v2.h>

#include "cuda/compat.h"
#include "tensor/context.h"

namespace linea::cuda {

// Fixed, so that equal products use equal algorithms.
inline constexpr size_t kBlasWorkspace = size_t{32} << 20;

struct Queue {
  int device = 0;
  cublasHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  void* blas_workspace = nullptr;
  size_t shared_bytes = 0;  // the maximum for a block that asks for it
  bool recording = false;   // operations are captured instead of run
};

inline Queue& queue(const Context& ctx) { return *static_cast<Queue*>(ctx.queue); }
inline cudaStream_t stream(const Context& ctx) { return queue(ctx).stream; }

}  // namespace linea::cuda

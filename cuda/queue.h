// The queue of a device in which all of its work is done in order: a stream, and cuBLAS on it.
#pragma once

#include <cublas_v2.h>

#include "cuda/compat.h"
#include "tensor/context.h"

namespace linea::cuda {

struct Queue {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  bool recording = false;  // what is asked of it is not done now
};

inline Queue& queue(const Context& ctx) { return *static_cast<Queue*>(ctx.queue); }
inline cudaStream_t stream(const Context& ctx) { return queue(ctx).stream; }

}  // namespace linea::cuda

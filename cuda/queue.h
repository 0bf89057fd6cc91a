// The queue of a device in which all of its work is done in order: a stream, and cuBLAS on it.
// (Parts of recorded work go to streams of their own: cuda/recorder.cpp.)
#pragma once

#include <cublas_v2.h>

#include "cuda/compat.h"
#include "tensor/context.h"

namespace linea::cuda {

inline constexpr size_t kBlasWorkspace =
    size_t{32} << 20;  // fixed: the same products are done in the same way

struct Queue {
  int device = 0;
  cublasHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  void* blas_workspace = nullptr;
  size_t shared_bytes = 0;  // that a block may have, where its kernel asks for it
  bool recording = false;   // what is asked of it is not done now
};

// From now on the queue's work goes to that stream, and cuBLAS has that memory there
// (kBlasWorkspace).
void put_on(Queue& queue, cudaStream_t stream, void* blas_workspace);

inline Queue& queue(const Context& ctx) { return *static_cast<Queue*>(ctx.queue); }
inline cudaStream_t stream(const Context& ctx) { return queue(ctx).stream; }

}  // namespace linea::cuda

#include "base/error.h"
#include "cuda/compat.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

ErrorKind kind_of(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? ErrorKind::memory : ErrorKind::usage;
}

}  // namespace

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which is reported here
  fail(kind_of(error), "{} failed: {} ({})", what, cudaGetErrorName(error),
       cudaGetErrorString(error));
}

void refuse(const char* text) { throw Error(ErrorKind::usage, text); }

void refuse_kernel(const char* name) {
  fail(ErrorKind::usage, "{} has no kernels for `device` cuda yet: leave `device` out", name);
}

void refuse_bf16(const char* topic) {
  fail(ErrorKind::usage, "{} of `device` cuda take f32 or f64, not bf16: cast their inputs", topic);
}

void check_launch(cudaError_t error, dim3 grid, dim3 block, size_t shared_bytes) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  fail(kind_of(error),
       "a kernel of {} x {} x {} blocks of {} x {} x {} threads with {} bytes of shared memory "
       "failed: {} ({})",
       grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, cudaGetErrorName(error),
       cudaGetErrorString(error));
}

}  // namespace linea::cuda

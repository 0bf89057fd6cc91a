// The backend of a CUDA device, which registers itself in every program that links it.
#include "tensor/backend.h"
#include "cuda/device.h"
#include "cuda/kernel_tables.h"
#include "cuda/recorder.h"

namespace linea {
namespace {

const DeviceMemory kCudaMemory = {.allocator = cuda::allocator,
                                  .use = cuda::memory_use,
                                  .limit = cuda::memory_limit,
                                  .reset_peak = cuda::reset_peak,
                                  .release_cache = cuda::release_cache,
                                  .clear = cuda::clear,
                                  .copy = cuda::copy,
                                  .read = cuda::read,
                                  .write = cuda::write,
                                  .wait = cuda::wait};

template <typename T>
Kernels<T> all_kernels() {
  return {cuda::elementwise_kernels<T>(),
          cuda::row_kernels<T>(),
          cuda::matrix_kernels<T>(),
          cuda::linear_kernels<T>(),
          cuda::panel_kernels<T>(),
          cuda::normalization_kernels<T>(),
          cuda::embedding_kernels<T>(),
          cuda::loss_kernels<T>(),
          cuda::sampling_kernels<T>(),
          cuda::feature_kernels<T>(),
          cuda::random_feature_kernels<T>(),
          cuda::codebook_kernels<T>(),
          cuda::chunk_forward_kernels<T>(),
          cuda::chunk_backward_query_kernels<T>(),
          cuda::chunk_backward_key_kernels<T>(),
          cuda::straight_through_kernels<T>(),
          cuda::recurrent_kernels<T>(),
          cuda::delta_kernels<T>(),
          cuda::delta_step_kernels<T>(),
          cuda::softmax_attention_kernels<T>(),
          cuda::optimizer_kernels<T>()};
}

#ifdef LINEA_CUDA_WITHOUT_DOUBLE
template <>
Kernels<double> all_kernels() {
  return {};
}
#endif

const Backend& backend() {
  static const Kernels<float> f32 = all_kernels<float>();
  static const Kernels<double> f64 = all_kernels<double>();
  static const Kernels<BFloat16> bf16 = all_kernels<BFloat16>();
  static const Backend backend = {.isa = nullptr,
                                  .memory = kCudaMemory,
                                  .f32 = f32,
                                  .f64 = f64,
                                  .bf16 = &bf16,
                                  .start = cuda::start,
                                  .devices = cuda::devices,
                                  .make_graph_recorder = cuda::make_graph_recorder};
  return backend;
}

struct Registration {
  Registration() { register_cuda(backend()); }
};
const Registration registration;

}  // namespace
}  // namespace linea

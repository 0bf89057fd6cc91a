// The backend of a CUDA device, which registers itself in every program that links it.
#include "cuda/device.h"
#include "cuda/kernel_tables.h"

namespace linea {
namespace {

template <typename T, template <typename> typename... Topics>
KernelTable<T, Topics...> filled(const KernelTable<T, Topics...>&) {
  return {cuda::kernels_of<Topics<T>>()...};
}

const Backend& backend() {
  static const Kernels<float> f32 = filled(Kernels<float>{});
  static const Kernels<double> f64 = filled(Kernels<double>{});
  static const Kernels<BFloat16> bf16 = filled(Kernels<BFloat16>{});
  static const Backend backend = {.isa = nullptr,
                                  .memory = {.allocator = cuda::allocator(),
                                             .clear = cuda::clear,
                                             .copy = cuda::copy,
                                             .read = cuda::read,
                                             .write = cuda::write,
                                             .wait = cuda::wait},
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

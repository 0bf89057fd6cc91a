// The CPU backend: kernel tables, and memory operations.
#include <cstring>

#include "tensor/backend.h"
#include "tensor/caching_allocator.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/simd.h"

#ifndef LINEA_CPU_BACKEND  // set by cmake/cpu_isa.cmake
#define LINEA_CPU_BACKEND cpu_backend_base
#endif

namespace linea {
namespace {

void clear_bytes(Context&, void* to, size_t bytes) { std::memset(to, 0, bytes); }
void wait(Context&) {}
void copy_bytes(Context&, void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

template <typename T, template <typename> typename... Topics>
KernelTable<T, Topics...> filled(const KernelTable<T, Topics...>&) {
  return {cpu::kernels_of<Topics<T>>()...};
}

void start(Context& ctx) {
  ctx.workspace = &cpu_allocator();
  ctx.queue = nullptr;
  ctx.step_on_device = ctx.step;
  ctx.sizes = WorkSizes{};
}

}  // namespace

const Backend& LINEA_CPU_BACKEND();
const Backend& LINEA_CPU_BACKEND() {
  static const Kernels<float> f32 = filled(Kernels<float>{});
  static const Kernels<double> f64 = filled(Kernels<double>{});
  static const Backend backend = {.isa = cpu::kIsaName,
                                  .memory = {.allocator = cpu_allocator(),
                                             .clear = clear_bytes,
                                             .copy = copy_bytes,
                                             .read = copy_bytes,
                                             .write = copy_bytes,
                                             .wait = wait},
                                  .f32 = f32,
                                  .f64 = f64,
                                  .start = start};
  return backend;
}

}  // namespace linea

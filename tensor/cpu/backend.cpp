// The CPU backend: kernel tables, and memory operations.
#include <cstring>

#include "tensor/backend.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/simd.h"
#include "tensor/memory_report.h"

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

constexpr DeviceMemory kCpuMemory = {.allocator = cpu_allocator,
                                     .use = cpu_memory,
                                     .limit = cpu_memory_limit,
                                     .reset_peak = reset_cpu_peak,
                                     .release_cache = release_cpu_cache,
                                     .clear = clear_bytes,
                                     .copy = copy_bytes,
                                     .read = copy_bytes,
                                     .write = copy_bytes,
                                     .wait = wait};

template <typename T>
Kernels<T> all_kernels() {
  return {cpu::elementwise_kernels<T>(),
          cpu::row_kernels<T>(),
          cpu::matrix_kernels<T>(),
          cpu::linear_kernels<T>(),
          cpu::panel_kernels<T>(),
          cpu::normalization_kernels<T>(),
          cpu::embedding_kernels<T>(),
          cpu::loss_kernels<T>(),
          cpu::sampling_kernels<T>(),
          cpu::feature_kernels<T>(),
          cpu::random_feature_kernels<T>(),
          cpu::codebook_kernels<T>(),
          cpu::chunk_forward_kernels<T>(),
          cpu::chunk_backward_query_kernels<T>(),
          cpu::chunk_backward_key_kernels<T>(),
          cpu::straight_through_kernels<T>(),
          cpu::recurrent_kernels<T>(),
          cpu::delta_kernels<T>(),
          cpu::delta_step_kernels<T>(),
          cpu::softmax_attention_kernels<T>(),
          cpu::optimizer_kernels<T>()};
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
  static const Kernels<float> f32 = all_kernels<float>();
  static const Kernels<double> f64 = all_kernels<double>();
  static const Backend backend = {.isa = cpu::kIsaName,
                                  .memory = kCpuMemory,
                                  .f32 = f32,
                                  .f64 = f64,
                                  .bf16 = nullptr,
                                  .start = start,
                                  .devices = nullptr,
                                  .make_graph_recorder = nullptr};
  return backend;
}

}  // namespace linea

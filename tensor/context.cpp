#include "tensor/context.h"

#include <cblas.h>
#include <omp.h>

#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "tensor/backend.h"
#include "tensor/caching_allocator.h"

namespace linea {
namespace {

// All cores. OpenBLAS takes as many threads as OpenMP has by default, and rounds by their number:
// it gets one. Kernels name theirs in each region.
int take_threads() {
  const int cores = omp_get_max_threads();
  omp_set_num_threads(1);
  return cores;
}

}  // namespace

Context& context() {
  // The CPU reads its StepParams from plain memory, one set a thread that drives a device.
  thread_local StepParams step;
  thread_local Context instance{.device = {},
                                .workspace = &cpu_allocator(),
                                .step = &step,
                                .step_on_device = &step,
                                .threads = take_threads()};
  return instance;
}

void send_step(Context& ctx) {
  if (ctx.step_on_device == ctx.step) return;
  device_memory(ctx.device).write(ctx, ctx.step_on_device, ctx.step, sizeof(StepParams));
}

void fetch_step(Context& ctx) {
  if (ctx.step_on_device == ctx.step) return;
  device_memory(ctx.device).read(ctx, ctx.step, ctx.step_on_device, sizeof(StepParams));
}

void set_threads(int threads) {
  require(threads >= 1, "the number of threads is {}; it must be at least 1", threads);
  context().threads = threads;
}

void check_blas() {
  const BlasInfo info = blas_info();
  require(openblas_get_parallel() == 2,
          "the BLAS that was loaded is {} in its {} flavor; Linea needs OpenBLAS built for OpenMP: "
          "install libopenblas0-openmp, and remove libopenblas from LD_LIBRARY_PATH and LD_PRELOAD",
          info.version, info.flavor);
}

void take_blas_buffers() {
  if (process_memory().total == SIZE_MAX) return;
  constexpr int kSize = 256, kElements = kSize * kSize;  // smaller products take none
  const std::vector<float> a(kElements, 1.0f);
  const int threads = context().threads;
  std::vector<float> c(static_cast<size_t>(kElements * threads));
  const auto multiply = [&](float* to) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1, a.data(), kSize,
                a.data(), kSize, 0, to, kSize);
  };
  multiply(c.data());
#pragma omp parallel num_threads(threads)
  multiply(c.data() + kElements * omp_get_thread_num());
}

BlasInfo blas_info() {
  const char* const flavors[] = {"sequential", "pthreads", "OpenMP"};
  const int flavor = openblas_get_parallel();
  return {openblas_get_config(), openblas_get_corename(),
          flavor >= 0 && flavor <= 2 ? flavors[flavor] : "unknown"};
}

}  // namespace linea

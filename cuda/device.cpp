#include "cuda/device.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "cuda/staging.h"

namespace linea::cuda {
namespace {

void check_blas_status(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "{}: cuBLAS returned {}", what,
          static_cast<int>(status));
}

// The process's only device, started at first use and never stopped.
struct Machine {
  std::mutex mutex;
  bool started = false;
  Queue queue;
  StepParams* step = nullptr;
  std::unique_ptr<Staging> staging;
};
Machine& machine() {
  static Machine* instance = new Machine;
  return *instance;
}

#ifndef LINEA_CUDA_ARCHITECTURES  // the emulator's
#define LINEA_CUDA_ARCHITECTURES "80-real,90-real,90-virtual"
#endif

// Whether this build holds code for devices of this compute capability, or the driver compiles PTX.
bool has_code_for(int major) {
  std::istringstream list(LINEA_CUDA_ARCHITECTURES);
  for (std::string entry; std::getline(list, entry, ',');)
    if (entry.find("-virtual") == std::string::npos && std::atoi(entry.c_str()) / 10 == major)
      return true;
  return false;
}

void start_device(Machine& m, int device) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  cudaGetLastError();
  require(found == cudaSuccess && count > 0,
          "`device` is 'cuda': this machine has no CUDA device ({}); leave `device` out or say cpu",
          found == cudaSuccess ? "none was found" : cudaGetErrorString(found));
  require(device < count,
          "`device` is 'cuda:{}': this machine has {} CUDA device{}, the first being cuda:0",
          device, count, count == 1 ? "" : "s");
  check_cuda(cudaSetDevice(device), "selecting the device");
  m.queue.device = device;
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, device), "querying the device");
    return value;
  };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor),
            minor = attribute(cudaDevAttrComputeCapabilityMinor);
  require(
      major >= 8,
      "`device` is 'cuda:{}', of compute capability {}.{}: kernels need 8.0 or more, as an A100 "
      "has; use another device, or leave `device` out",
      device, major, minor);
  if (!has_code_for(major))
    std::fprintf(
        stderr,
        "linea: cuda:%d has compute capability %d.%d, for which this build has no code: the "
        "driver compiles the kernels at their first use, once, which takes minutes; a build "
        "with -DLINEA_CUDA_ARCHITECTURES=%d%d-real starts at once\n",
        device, major, minor, major, minor);
  require(
      attribute(cudaDevAttrMemoryPoolsSupported) != 0,
      "`device` is 'cuda:{}', whose driver has no memory pools: install one of CUDA 12 or later, "
      "or leave `device` out",
      device);
  m.queue.shared_bytes = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  check_cuda(cudaStreamCreateWithFlags(&m.queue.stream, cudaStreamNonBlocking),
             "creating a stream");
  // Keep freed blocks, so that no step waits for the driver.
  cudaMemPool_t pool = nullptr;
  uint64_t keep_all = UINT64_MAX;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "querying the memory pool");
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all),
             "configuring the memory pool");
  check_blas_status(cublasCreate(&m.queue.blas), "initializing cuBLAS");
  check_cuda(cudaMalloc(&m.queue.blas_workspace, kBlasWorkspace),
             "allocating the cuBLAS workspace");
  // Changing the stream resets the workspace.
  check_blas_status(cublasSetStream(m.queue.blas, m.queue.stream), "setting the cuBLAS stream");
  check_blas_status(cublasSetWorkspace(m.queue.blas, m.queue.blas_workspace, kBlasWorkspace),
                    "setting the cuBLAS workspace");
  // Partial sums of split bf16 products are added in float.
  constexpr int kSumsOfFloat =
      CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  check_blas_status(cublasSetMathMode(m.queue.blas, static_cast<cublasMath_t>(kSumsOfFloat)),
                    "initializing cuBLAS");
  void* step = nullptr;
  check_cuda(cudaMalloc(&step, sizeof(StepParams)), "allocating step parameters");
  m.step = static_cast<StepParams*>(step);
  m.staging = std::make_unique<Staging>();
  m.started = true;
}

}  // namespace

const Queue& default_queue() { return machine().queue; }

void start(Context& ctx) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (!m.started) start_device(m, ctx.device.index);
  require(m.queue.device == ctx.device.index,
          "this process already uses cuda:{}; it cannot also use cuda:{}", m.queue.device,
          ctx.device.index);
  check_cuda(cudaSetDevice(m.queue.device), "selecting the device");
  ctx.workspace = &allocator();
  ctx.queue = &m.queue;
  ctx.step_on_device = m.step;
  send_step(ctx);
  // Few large operations: a launch costs several microseconds, and device memory holds more than a
  // CPU's cache.
  ctx.sizes = {int64_t{1} << 27, int64_t{1} << 26, 1024, false, kMaxPending, 64};
}

std::vector<std::string> devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  std::vector<std::string> lines;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "querying device properties");
    lines.push_back(fmt::format(
        "cuda:{} {}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB", device,
        properties.name, properties.major, properties.minor, properties.multiProcessorCount,
        static_cast<double>(properties.totalGlobalMem) / (1 << 30)));
  }
  return lines;
}

// Zero-byte operations are skipped: their effect as graph nodes is undocumented.
void clear(Context& ctx, void* to, size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemsetAsync(to, 0, bytes, stream(ctx)), "clearing device memory");
}

void copy(Context& ctx, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream(ctx)),
             "copying device memory");
}

void read(Context& ctx, void* host, const void* from, size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream(ctx)),
             "reading from the device");
  wait(ctx);
}

void wait(Context& ctx) {
  check_cuda(cudaStreamSynchronize(stream(ctx)), "synchronizing the device");
}

void write(Context& ctx, void* to, const void* host, size_t bytes) {
  if (queue(ctx).recording) refuse("writes from the host cannot be captured");
  machine().staging->write(to, host, bytes, stream(ctx));
}

}  // namespace linea::cuda

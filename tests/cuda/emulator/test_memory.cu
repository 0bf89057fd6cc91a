// Device memory: initial contents, size, and invalid accesses by kernels and the host.
#include <cmath>

#include "base/error.h"
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr size_t kCount = 4096;

__global__ void copy(float* y, const float* x, int first) {
  const int i = first + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  y[i] = x[i];
}

void run_copy(float* y, const float* x, int first = 0) {
  launch(copy, kCount / 256, 256, 0, nullptr, y, x, first);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

TEST(Memory, IsInitiallyFilledWithNan) {
  const DeviceArray<float> x(16);
  if (kChecked)
    EXPECT_ABORTS(x.values(),
                  "a copy or matrix product reads uninitialized global memory, byte 0 ");
  else
    for (const float value : x.values()) EXPECT_TRUE(std::isnan(value));
}

TEST(Memory, OutOfBoundsReadsAreReported) {
  const auto run = [] {
    const DeviceArray<float> x(iota<float>(kCount)), y(kCount);
    run_copy(y.data(), x.data(), 1);
  };
  if (!kChecked && !kAddressSanitizer)
    GTEST_SKIP() << "only the checker and the sanitizers detect this";
  EXPECT_ABORTS(
      run(), kChecked
                 ? "read of 4 bytes at .*outside of device and shared memory(.|\n)*test_memory.cu"
                 : "use-after-poison(.|\n)*in block \\(15,0,0\\) thread \\(255,0,0\\) of .*copy");
}

TEST(Memory, UseAfterFreeIsReported) {
  const auto run = [] {
    const DeviceArray<float> y(kCount);
    float* x = nullptr;
    {
      const DeviceArray<float> freed(iota<float>(kCount));
      x = freed.data();
    }
    run_copy(y.data(), x);
  };
  EXPECT_ABORTS(run(), kChecked ? "read of 4 bytes at .*outside of device and shared memory"
                       : kAddressSanitizer ? "use-after-poison"
                                           : "signal 11(.|\n)*in block .* of .*copy");
}

TEST(Memory, DoubleFreeIsReported) {
  const auto run = [] {
    void* data = nullptr;
    cudaMalloc(&data, 100);
    cudaFree(data);
    cudaFree(data);
  };
  EXPECT_ABORTS(run(), "free of .*, which is not a live allocation of device memory");
}

// Addresses are eventually reused, as a long run would exhaust them; the memory is fresh each time.
TEST(Memory, IsFreshWhenAddressesAreReused) {
  float* first = nullptr;
  bool reused = false;
  for (int i = 0; i < 1100; ++i) {
    float* x = nullptr;
    check_cuda(cudaMalloc(&x, 2 * kCount * sizeof(float)), "cudaMalloc");
    reused = reused || x == first;
    if (first == nullptr) first = x;
    if (i >= 1095) {
      check_cuda(cudaMemset(x, 0, kCount * sizeof(float)), "cudaMemset");
      run_copy(x + kCount, x);
      float last = 1;
      check_cuda(cudaMemcpy(&last, x + 2 * kCount - 1, sizeof(float), cudaMemcpyDeviceToHost),
                 "cudaMemcpy");
      EXPECT_EQ(last, 0);
    }
    check_cuda(cudaFree(x), "cudaFree");
  }
  EXPECT_TRUE(reused);
}

TEST(Memory, OfTheHostIsInvalidInKernels) {
  if (!kChecked) GTEST_SKIP() << "only test_emulator_checked detects this";
  const auto run = [] {
    const std::vector<float> x(kCount);
    const DeviceArray<float> y(kCount);
    run_copy(y.data(), x.data());
  };
  EXPECT_ABORTS(
      run(),
      "read of 4 bytes at .*outside of device and shared memory .out of bounds, freed, or "
      "host memory");
}

TEST(Memory, PinnedHostMemoryIsValidInKernels) {
  float* pinned = nullptr;
  check_cuda(cudaMallocHost(&pinned, kCount * sizeof(float)), "cudaMallocHost");
  for (size_t i = 0; i < kCount; ++i) pinned[i] = static_cast<float>(i);
  const DeviceArray<float> y(kCount);
  run_copy(y.data(), pinned);
  EXPECT_EQ(y.values(), iota<float>(kCount));
  check_cuda(cudaFreeHost(pinned), "cudaFreeHost");
}

TEST(Memory, HostAccessIsReportedByTheGuard) {
  const auto run = [] {
    settings().guard = true;
    const DeviceArray<float> x(iota<float>(kCount)), y(kCount);
    run_copy(y.data(), x.data());
    if (y.values() != iota<float>(kCount)) return;
    x.data()[5] = 1;
  };
  EXPECT_ABORTS(run(), kAddressSanitizer
                           ? "SEGV on unknown address"
                           : "the host accessed device memory at .* outside of a copy or kernel");
}

__global__ void copy_vectors(float4* y, const float* x) {
  y[threadIdx.x] = *reinterpret_cast<const float4*>(x + 1 + threadIdx.x * 4);
}

TEST(Memory, MisalignedVectorsAreReported) {
  if (!kChecked && !kAddressSanitizer)
    GTEST_SKIP() << "only the checker and the sanitizers detect this";
  const auto run = [] {
    const DeviceArray<float> x(iota<float>(kCount));
    const DeviceArray<float4> y(8);
    launch(copy_vectors, 1, 8, 0, nullptr, y.data(), x.data());
  };
  EXPECT_ABORTS(run(),
                kChecked ? "signal 4 (.|\n)*in block .* of .*copy_vectors" : "misaligned address");
}

TEST(Memory, OutOfBoundsCopiesAreReported) {
  const auto run = [] {
    const DeviceArray<float> x(16), y(16);
    cudaMemcpy(y.data(), x.data() + 1, 16 * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaDeviceSynchronize();
  };
  EXPECT_ABORTS(run(), "a copy reads: 64 bytes at .* are not inside one live allocation");
}

TEST(Memory, CopiesCheckTheirDirection) {
  const DeviceArray<float> x(16);
  float host[16] = {};
  EXPECT_EQ(cudaMemcpy(x.data(), host, sizeof(host), cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data(), host, sizeof(host), cudaMemcpyDefault), cudaSuccess);
}

// ---- memory size ----

size_t free_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  EXPECT_EQ(total, settings().memory);
  return free;
}

TEST(Memory, IsLimitedByTheSettings) {
  settings().memory = size_t{1} << 20;
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 700 << 10), cudaSuccess);
  EXPECT_EQ(free_bytes(), size_t{324} << 10);
  EXPECT_EQ(cudaMalloc(&second, 700 << 10), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocAsync(&second, 700 << 10, nullptr), cudaErrorMemoryAllocation);
  try {
    check_cuda(cudaMalloc(&second, 700 << 10), "a second allocation");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::memory);
    EXPECT_STREQ(error.what(),
                 "a second allocation failed: cudaErrorMemoryAllocation (out of memory)");
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 700 << 10), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  settings().memory = size_t{8} << 30;
}

uint64_t pool_attribute(cudaMemPoolAttr attribute) {
  cudaMemPool_t pool = nullptr;
  uint64_t value = 0;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
  check_cuda(cudaMemPoolGetAttribute(pool, attribute, &value), "cudaMemPoolGetAttribute");
  return value;
}

void set_release_threshold(uint64_t bytes) {
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes),
             "cudaMemPoolSetAttribute");
}

TEST(Memory, PoolKeepsMemoryUpToItsThreshold) {
  const size_t before = free_bytes();
  set_release_threshold(4096);
  void *small = nullptr, *large = nullptr;
  check_cuda(cudaMallocAsync(&small, 2048, nullptr), "cudaMallocAsync");
  check_cuda(cudaMallocAsync(&large, 8192, nullptr), "cudaMallocAsync");
  EXPECT_EQ(pool_attribute(cudaMemPoolAttrUsedMemCurrent), 10240u);
  EXPECT_EQ(before - free_bytes(), 10240u);
  check_cuda(cudaFreeAsync(large, nullptr), "cudaFreeAsync");
  EXPECT_EQ(pool_attribute(cudaMemPoolAttrUsedMemCurrent), 2048u);
  EXPECT_EQ(pool_attribute(cudaMemPoolAttrReservedMemCurrent), 10240u);
  cudaDeviceSynchronize();
  EXPECT_EQ(pool_attribute(cudaMemPoolAttrReservedMemCurrent), 4096u);
  check_cuda(cudaFreeAsync(small, nullptr), "cudaFreeAsync");
  cudaMemPool_t pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  check_cuda(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
  EXPECT_EQ(pool_attribute(cudaMemPoolAttrReservedMemCurrent), 0u);
  EXPECT_EQ(pool_attribute(cudaMemPoolAttrUsedMemHigh), 10240u);
  EXPECT_EQ(free_bytes(), before);
  set_release_threshold(0);
}

TEST(Memory, UseAfterStreamOrderedFreeIsReported) {
  const auto run = [] {
    const DeviceArray<float> y(kCount);
    void* x = nullptr;
    cudaMallocAsync(&x, kCount * sizeof(float), nullptr);
    cudaMemsetAsync(x, 0, kCount * sizeof(float), nullptr);
    run_copy(y.data(), static_cast<float*>(x));  // still valid
    cudaFreeAsync(x, nullptr);
    run_copy(y.data(), static_cast<float*>(x));
  };
  EXPECT_ABORTS(run(), kChecked ? "read of 4 bytes at .*outside of device and shared memory"
                       : kAddressSanitizer ? "use-after-poison"
                                           : "signal 11");
}

}  // namespace
}  // namespace linea::cuda

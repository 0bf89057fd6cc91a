// Launches that a device refuses, machines without a GPU, and error names.
#include <cstdlib>

#include "tests/cuda/emulator/emulated.h"
#include "tests/expect_error.h"

namespace linea::cuda {
namespace {

__global__ void store_indices(int* y) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  y[block * threads + thread] = static_cast<int>(block * 1000 + thread);
}

TEST(Launches, HaveThreeDimensions) {
  const DeviceArray<int> y(24 * 30);
  const auto right = [&] {
    check_cuda(cudaMemset(y.data(), 0, 24 * 30 * sizeof(int)), "cudaMemset");
    launch(store_indices, dim3(2, 3, 4), dim3(5, 3, 2), 0, nullptr, y.data());
    const std::vector<int> values = y.values();
    bool same = true;
    for (int block = 0; block < 24; ++block)
      for (int thread = 0; thread < 30; ++thread)
        same = same && values[static_cast<size_t>(block * 30 + thread)] == block * 1000 + thread;
    return same;
  };
  EXPECT_EQ(count_orders(right), kOrders);
}

__global__ void nothing() {}

void expect_refused(dim3 grid, dim3 block, size_t bytes, const std::string& error) {
  expect_error(ErrorKind::usage, {error, std::to_string(block.x), std::to_string(bytes)},
               [&] { launch(nothing, grid, block, bytes, nullptr); });
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // the exception has cleared the error
}

TEST(Launches, BeyondTheLimitsAreRefused) {
  const std::string wrong = "cudaErrorInvalidConfiguration";
  expect_refused(1, 1025, 0, wrong);
  expect_refused(1, 0, 0, wrong);
  expect_refused(0, 32, 0, wrong);
  expect_refused(1, dim3(32, 33, 1), 0, wrong);
  expect_refused(1, dim3(1, 1, 65), 0, wrong);
  expect_refused(dim3(1, 65536, 1), 32, 0, wrong);
  launch(nothing, dim3(1, 1, 2), dim3(16, 1, 64), 0, nullptr);
}

__global__ void take_all(size_t bytes) {
  SharedMemory shared;
  shared.take<char>(bytes)[bytes - 1 - threadIdx.x] = 1;
}

TEST(Launches, MustOptInToLargeSharedMemory) {
  expect_refused(1, 32, 49153, "cudaErrorInvalidValue");
  launch(take_all, 1, 32, 49152, nullptr, 49152);
  expect_error(ErrorKind::usage, {"cudaErrorInvalidValue"},
               [] { launch(take_all, 1, 32, 100000, nullptr, 100000); });
  const auto allow = [](int bytes) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(take_all),
                                cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(allow(100000), cudaSuccess);
  launch(take_all, 1, 32, 100000, nullptr, 100000);
  expect_error(ErrorKind::usage, {"cudaErrorInvalidValue"},
               [] { launch(take_all, 1, 32, 100001, nullptr, 100001); });
  EXPECT_EQ(allow(232449), cudaErrorInvalidValue);
  cudaGetLastError();
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

TEST(Launches, NeedADevice) {
  settings().devices = 0;
  int count = 7;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorNoDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
  expect_error(ErrorKind::usage, {"cudaErrorNoDevice", "no CUDA-capable device is detected"},
               [] { launch(nothing, 1, 1, 0, nullptr); });
  settings().devices = 1;
  cudaGetLastError();
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Launches, RunOnAnEmulatedDevice) {
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "Emulated GPU");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.totalGlobalMem, settings().memory);
  int bytes = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  EXPECT_EQ(bytes, 232448);
}

// ---- settings from the environment, which the child process of a death test reads again ----

TEST(Settings, UnknownValuesAreRefused) {
  setenv("LINEA_EMULATOR_ORDER", "sideways", 1);
  EXPECT_ABORTS(settings(),
                "LINEA_EMULATOR_ORDER is 'sideways'; valid values: forward, reverse, priority");
  unsetenv("LINEA_EMULATOR_ORDER");
}

TEST(Settings, MalformedNumbersAreRefused) {
  setenv("LINEA_EMULATOR_SEED", "12x", 1);
  EXPECT_ABORTS(settings(), "LINEA_EMULATOR_SEED is '12x', which is not a number");
  unsetenv("LINEA_EMULATOR_SEED");
}

}  // namespace
}  // namespace linea::cuda

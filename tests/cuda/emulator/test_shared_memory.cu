// Shared memory: dynamic arrays, out-of-bounds accesses, uninitialized reads and oversized
// requests.
#include <cmath>

#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr int kSharers = 64;

struct Misuse {
  int past = 0;           // a thread writes this far past the end of its array
  bool skip_one = false;  // one element stays uninitialized
  int other_size = 0;     // the last thread takes this many elements more
};

__global__ void add_arrays(double* y, Misuse misuse) {
  SharedMemory shared;
  const unsigned t = threadIdx.x;
  float* first = shared.take<float>(kSharers - 3);
  double* second = shared.take<double>(
      static_cast<size_t>(kSharers + (t == kSharers - 1 ? misuse.other_size : 0)));
  if (t < kSharers - 3 && !(misuse.skip_one && t == 9)) first[t] = static_cast<float>(t);
  second[t] = 0.5;
  if (t == 0 && misuse.past > 0) first[kSharers - 4 + misuse.past] = 1;
  __syncthreads();
  y[t] = second[kSharers - 1 - t] + (t < kSharers - 3 ? first[kSharers - 4 - t] : 0);
}

constexpr size_t kBytes = shared_bytes<float>(kSharers - 3) + shared_bytes<double>(kSharers);

std::vector<double> added(Misuse misuse, size_t bytes = kBytes) {
  const DeviceArray<double> y(kSharers);
  launch(add_arrays, 1, kSharers, bytes, nullptr, y.data(), misuse);
  return y.values();
}

TEST(SharedMemory, ProvidesSeveralArrays) {
  const std::vector<double> values = added({});
  EXPECT_EQ(values[0], kSharers - 4 + 0.5);
  EXPECT_EQ(values[kSharers - 1], 0.5);
}

TEST(SharedMemory, OutOfBoundsWritesToDynamicArraysAreReported) {
  EXPECT_ABORTS(
      added({1}),
      kAddressSanitizer
          ? "use-after-poison(.|\n)*in block \\(0,0,0\\) thread \\(0,0,0\\) of .*add_arrays"
      : kChecked ? "write of 4 bytes at .*outside of device and shared(.|\n)*test_shared_memory.cu"
                 : "block \\(0,0,0\\) wrote past the dynamic shared array of 244 bytes "
                   ".*test_shared_memory.cu");
}

TEST(SharedMemory, DifferentSizesBetweenThreadsAreReported) {
  EXPECT_ABORTS(added({0, false, 1}),
                "dynamic shared array 1 at .*another thread took 512 bytes, this one takes 520");
}

TEST(SharedMemory, MoreThanTheLaunchProvidesIsReported) {
  EXPECT_ABORTS(added({}, 600),
                "dynamic shared memory at .*the block takes 768 bytes, its launch provides 600");
}

TEST(SharedMemory, UninitializedReadsOfDynamicArraysAreReported) {
  if (kChecked)
    EXPECT_ABORTS(added({0, true}), "uninitialized read of dynamic shared memory at ");
  else
    EXPECT_TRUE(std::isnan(added({0, true})[kSharers - 4 - 9]));
}

__global__ void read_uninitialized(float* y) {
  __shared__ float values[8];
  if (threadIdx.x == 0) values[0] = 1;
  __syncthreads();
  y[threadIdx.x] = values[threadIdx.x];
}

TEST(SharedMemory, UninitializedReadsOfStaticArraysAreReported) {
  if (!kChecked) GTEST_SKIP() << "only test_emulator_checked detects this";
  const auto run = [] {
    const DeviceArray<float> y(8);
    launch(read_uninitialized, 1, 8, 0, nullptr, y.data());
  };
  EXPECT_ABORTS(run(), "uninitialized read of shared array .*read_uninitialized.*::values, byte 4");
}

__global__ void write_past_array(float* y, unsigned last) {
  __shared__ float values[8];
  values[threadIdx.x] = 1;
  if (threadIdx.x == 0) values[last] = 1;
  __syncthreads();
  y[threadIdx.x] = values[threadIdx.x];
}

TEST(SharedMemory, OutOfBoundsWritesToStaticArraysAreReported) {
  if (!kChecked && !kAddressSanitizer)
    GTEST_SKIP() << "only the checker and the sanitizers detect this";
  const auto run = [] {
    const DeviceArray<float> y(8);
    launch(write_past_array, 1, 8, 0, nullptr, y.data(), 8u);
  };
  EXPECT_ABORTS(run(), kChecked ? "signal 4 (.|\n)*in block .* of .*write_past_array"
                                : "index 8 out of bounds for type|global-buffer-overflow");
}

}  // namespace
}  // namespace linea::cuda

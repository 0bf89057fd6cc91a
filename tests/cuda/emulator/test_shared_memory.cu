// Shared memory: how it is cut, and kernels that leave it, forget to write it or take too much.
#include <cmath>

#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr int kThreads = 64;

struct Misuse {
  int past = 0;           // how far behind its piece a thread writes
  bool skip_one = false;  // a number that no one writes
  int other_size = 0;     // how much more the last thread takes
};

__global__ void add_pieces(double* y, Misuse misuse) {
  SharedMemory shared;
  const unsigned t = threadIdx.x;
  float* first = shared.take<float>(kThreads - 3);
  double* second = shared.take<double>(
      static_cast<size_t>(kThreads + (t == kThreads - 1 ? misuse.other_size : 0)));
  if (t < kThreads - 3 && !(misuse.skip_one && t == 9)) first[t] = static_cast<float>(t);
  second[t] = 0.5;
  if (t == 0 && misuse.past > 0) first[kThreads - 4 + misuse.past] = 1;
  __syncthreads();
  y[t] = second[kThreads - 1 - t] + (t < kThreads - 3 ? first[kThreads - 4 - t] : 0);
}

constexpr size_t kBytes = shared_bytes<float>(kThreads - 3) + shared_bytes<double>(kThreads);

std::vector<double> added(Misuse misuse, size_t bytes = kBytes) {
  const DeviceArray<double> y(kThreads);
  launch(add_pieces, 1, kThreads, bytes, nullptr, y.data(), misuse);
  return y.values();
}

TEST(SharedMemory, IsCutInPieces) {
  const std::vector<double> values = added({});
  EXPECT_EQ(values[0], kThreads - 4 + 0.5);
  EXPECT_EQ(values[kThreads - 1], 0.5);
}

TEST(SharedMemory, ANumberPastAPieceShows) {
  EXPECT_STOPS(
      added({1}),
      kAddressSanitizer
          ? "use-after-poison(.|\n)*in block \\(0,0,0\\) thread \\(0,0,0\\) of .*add_pieces"
      : kChecked ? "write of 4 bytes at .*outside of device and shared(.|\n)*test_shared_memory.cu"
                 : "block \\(0,0,0\\) wrote past the piece of 244 bytes .*test_shared_memory.cu");
}

TEST(SharedMemory, AThreadThatTakesAnotherSizeIsNamed) {
  EXPECT_STOPS(
      added({0, false, 1}),
      "piece 1 of dynamic shared memory at .*another thread took 512 bytes, this one takes 520");
}

TEST(SharedMemory, ABlockTakesNoMoreThanItsLaunchGave) {
  EXPECT_STOPS(added({}, 600),
               "dynamic shared memory at .*the block takes 768 bytes, its launch gave 600");
}

TEST(SharedMemory, WhatNoOneWroteShows) {
  if (kChecked)
    EXPECT_STOPS(added({0, true}), "read of dynamic shared memory at .* that nothing has written");
  else
    EXPECT_TRUE(std::isnan(added({0, true})[kThreads - 4 - 9]));
}

__global__ void read_unwritten(float* y) {
  __shared__ float values[8];
  if (threadIdx.x == 0) values[0] = 1;
  __syncthreads();
  y[threadIdx.x] = values[threadIdx.x];
}

TEST(SharedMemory, WhatNoOneWroteOfAnArrayShows) {
  if (!kChecked) GTEST_SKIP() << "seen by the checker alone: test_emulator_checked runs it";
  const auto run = [] {
    const DeviceArray<float> y(8);
    launch(read_unwritten, 1, 8, 0, nullptr, y.data());
  };
  EXPECT_STOPS(run(),
               "read of shared array .*read_unwritten.*::values, byte 4 that nothing has written");
}

__global__ void write_past_array(float* y, unsigned last) {
  __shared__ float values[8];
  values[threadIdx.x] = 1;
  if (threadIdx.x == 0) values[last] = 1;
  __syncthreads();
  y[threadIdx.x] = values[threadIdx.x];
}

TEST(SharedMemory, ANumberPastAnArrayShows) {
  if (!kAddressSanitizer) GTEST_SKIP() << "seen by the sanitizers alone: their build runs it";
  const auto run = [] {
    const DeviceArray<float> y(8);
    launch(write_past_array, 1, 8, 0, nullptr, y.data(), 8u);
  };
  EXPECT_STOPS(run(), "index 8 out of bounds for type|global-buffer-overflow");
}

}  // namespace
}  // namespace linea::cuda

// Block barriers, and kernels that lack one or diverge at one.
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr int kThreads = 128;

enum class Barriers { both, none_after_write, none_after_read };

// y = x, reversed twice through shared memory.
__global__ void reverse_twice(float* y, const float* x, Barriers barriers) {
  __shared__ float values[kThreads];
  const unsigned t = threadIdx.x;
  values[t] = x[t];
  if (barriers != Barriers::none_after_write) __syncthreads();
  const float once = values[kThreads - 1 - t];
  if (barriers != Barriers::none_after_read) __syncthreads();
  values[t] = once;
  __syncthreads();
  y[t] = values[kThreads - 1 - t];
}

bool reverses(Barriers barriers) {
  const DeviceArray<float> x(iota<float>(kThreads)), y(kThreads);
  launch(reverse_twice, 1, kThreads, 0, nullptr, y.data(), x.data(), barriers);
  return y.values() == iota<float>(kThreads);
}

TEST(Barriers, OrderThreads) {
  EXPECT_EQ(count_orders([] { return reverses(Barriers::both); }), kOrders);
}

TEST(Barriers, AMissingOneAfterAWriteIsDetected) {
  if (kChecked)
    EXPECT_ABORTS(
        reverses(Barriers::none_after_write),
        "data race on shared array .*reverse_twice.*::values, byte .*a write by thread .*, then an "
        "unordered read by|"
        "data race on shared array .*reverse_twice.*::values, byte .*a read by thread .*, then an "
        "unordered write by|"
        "uninitialized read of shared array .*reverse_twice.*::values, byte");
  else
    EXPECT_LT(count_orders([] { return reverses(Barriers::none_after_write); }), kOrders);
}

TEST(Barriers, AMissingOneAfterAReadIsDetected) {
  if (kChecked)
    EXPECT_ABORTS(reverses(Barriers::none_after_read),
                  "data race on shared array .*reverse_twice.*::values");
  else
    EXPECT_LT(count_orders([] { return reverses(Barriers::none_after_read); }), kOrders);
}

TEST(Barriers, ARaceReportsBothLines) {
  if (!kChecked) GTEST_SKIP() << "only test_emulator_checked detects this";
  EXPECT_ABORTS(reverses(Barriers::none_after_read),
                "first:(.|\n)*test_barriers.cu:17(.|\n)*then:(.|\n)*test_barriers.cu:19|"
                "first:(.|\n)*test_barriers.cu:19(.|\n)*then:(.|\n)*test_barriers.cu:17");
}

__global__ void count_votes(int* y) {
  const int number = static_cast<int>(threadIdx.x);
  const int below = __syncthreads_count(number < 5);
  const int any = __syncthreads_or(number == 7), none = __syncthreads_or(number < 0);
  const int all = __syncthreads_and(number >= 0), few = __syncthreads_and(number > 0);
  y[number] = below * 10000 + any * 1000 + none * 100 + all * 10 + few;
}

TEST(Barriers, CountThreads) {
  const DeviceArray<int> y(64);
  const auto right = [&] {
    launch(count_votes, 1, 64, 0, nullptr, y.data());
    return y.values() == std::vector<int>(64, 51010);
  };
  EXPECT_EQ(count_orders(right), kOrders);
}

__global__ void use_two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}

TEST(Barriers, DivergenceIsReported) {
  EXPECT_ABORTS((launch(use_two_barriers, 1, 64, 0, nullptr), cudaDeviceSynchronize()),
                "divergent barrier: threads wait in __syncthreads at .*test_barriers.cu:[0-9]+ and "
                "in __syncthreads at .*test_barriers.cu:[0-9]+");
}

__global__ void exit_early() {
  if (threadIdx.x < 5) return;
  __syncthreads();
}

TEST(Barriers, ExitedThreadsAreReported) {
  EXPECT_ABORTS((launch(exit_early, 1, 64, 0, nullptr), cudaDeviceSynchronize()),
                "5 threads of the block exited before __syncthreads at .*test_barriers.cu");
}

__global__ void wait_for_each_other() {
  if (threadIdx.x < 7)
    __syncthreads();
  else
    __syncwarp();
}

TEST(Barriers, ADeadlockReportsWhereThreadsWait) {
  EXPECT_ABORTS((launch(wait_for_each_other, 2, 32, 0, nullptr), cudaDeviceSynchronize()),
                "deadlock: no thread of the block can run\n *7 threads \\(0 to 6\\) wait in "
                "__syncthreads at "
                ".*test_barriers.cu:.*\n *25 threads \\(7 to 31\\) wait in __syncwarp at .*with "
                "mask ffffffff\n"
                " *in block \\(0,0,0\\) thread .*wait_for_each_other");
}

}  // namespace
}  // namespace linea::cuda

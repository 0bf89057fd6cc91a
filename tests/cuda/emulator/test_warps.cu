// Warp shuffles, votes and reductions, and their misuse.
#include <algorithm>
#include <numeric>

#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr unsigned kAll = 0xffffffffu;

template <typename T>
__global__ void shuffle_all(T* y) {
  const int lane = static_cast<int>(threadIdx.x);
  const T mine = static_cast<T>(static_cast<float>(lane));
  T* results = y + lane * 5;
  results[0] = __shfl_sync(kAll, mine, 3, 8);
  results[1] = __shfl_up_sync(kAll, mine, 2);
  results[2] = __shfl_down_sync(kAll, mine, 5, 16);
  results[3] = __shfl_xor_sync(kAll, mine, 9);
  results[4] = __shfl_xor_sync(kAll, mine, 16, 8);
}

template <typename T>
void expect_shuffles() {
  const DeviceArray<T> y(32 * 5);
  const auto right = [&] {
    launch(shuffle_all<T>, 1, 32, 0, nullptr, y.data());
    const std::vector<T> values = y.values();
    bool same = true;
    for (int lane = 0; lane < 32; ++lane) {
      const int expected[] = {lane / 8 * 8 + 3, lane < 2 ? lane : lane - 2,
                              lane % 16 + 5 >= 16 ? lane : lane + 5, lane ^ 9,
                              (lane ^ 16) >= lane / 8 * 8 + 8 ? lane : lane ^ 16};
      for (int i = 0; i < 5; ++i) {
        const T value = values[static_cast<size_t>(lane * 5 + i)];
        same = same && static_cast<float>(value) == static_cast<float>(expected[i]);
      }
    }
    return same;
  };
  EXPECT_EQ(count_orders(right), kOrders);
}

TEST(Warps, ShuffleFloats) { expect_shuffles<float>(); }
TEST(Warps, ShuffleDoubles) { expect_shuffles<double>(); }
TEST(Warps, ShuffleHalves) { expect_shuffles<__nv_bfloat16>(); }
TEST(Warps, ShuffleIntegers) { expect_shuffles<long long>(); }

__global__ void vote_and_reduce(unsigned* y) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned votes = __ballot_sync(kAll, lane % 3 == 0);
  if (lane >= 16) votes = __ballot_sync(0xffff0000u, lane % 5 == 0);
  unsigned* results = y + lane * 6;
  results[0] = votes;
  results[1] =
      static_cast<unsigned>(__any_sync(kAll, lane == 4) * 10 + __all_sync(kAll, lane < 31));
  results[2] = static_cast<unsigned>(__reduce_add_sync(kAll, lane - 20));
  results[3] = static_cast<unsigned>(__reduce_min_sync(kAll, lane - 20));
  results[4] = __reduce_max_sync(kAll, 0xfffffff0u + threadIdx.x % 16);
  results[5] = __reduce_xor_sync(kAll, 1u << lane);
}

TEST(Warps, VoteAndReduce) {
  const DeviceArray<unsigned> y(32 * 6);
  launch(vote_and_reduce, 1, 32, 0, nullptr, y.data());
  const std::vector<unsigned> values = y.values();
  for (size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(values[lane * 6], lane < 16 ? 0x49249249u : 0x42100000u);
    EXPECT_EQ(values[lane * 6 + 1], 10u);
    EXPECT_EQ(static_cast<int>(values[lane * 6 + 2]), 496 - 640);
    EXPECT_EQ(static_cast<int>(values[lane * 6 + 3]), -20);
    EXPECT_EQ(values[lane * 6 + 4], 0xffffffffu);
    EXPECT_EQ(values[lane * 6 + 5], kAll);
  }
}

// The incomplete last warp of a block, with a lane that exits early.
__global__ void shuffle_incomplete(int* y) {
  if (threadIdx.x == 39) return;
  int value = 1;
  if (threadIdx.x >= 32) value = __shfl_sync(0xffu, value + static_cast<int>(threadIdx.x), 2);
  y[threadIdx.x] = value;
}

TEST(Warps, MayBeIncomplete) {
  const DeviceArray<int> y(iota<int>(40));
  launch(shuffle_incomplete, 1, 40, 0, nullptr, y.data());
  EXPECT_EQ(y.values()[36], 35);
}

__global__ void through_shared(float* y, const float* x, bool with_barrier) {
  __shared__ float values[32];
  values[threadIdx.x] = x[threadIdx.x];
  if (with_barrier) __syncwarp();
  y[threadIdx.x] = values[31 - threadIdx.x];
}

bool passes_through_shared(bool with_barrier) {
  static float first =
      0;  // different numbers each time, as a shared array retains the previous ones
  first += 100;
  std::vector<float> numbers(32);
  std::iota(numbers.begin(), numbers.end(), first);
  const DeviceArray<float> x(numbers), y(32);
  launch(through_shared, 1, 32, 0, nullptr, y.data(), x.data(), with_barrier);
  std::reverse(numbers.begin(), numbers.end());
  return y.values() == numbers;
}

TEST(Warps, OrderAccessesByABarrier) {
  EXPECT_EQ(count_orders([] { return passes_through_shared(true); }), kOrders);
}

TEST(Warps, AMissingBarrierIsDetected) {
  if (kChecked)
    EXPECT_ABORTS(passes_through_shared(false), "data race on shared array|uninitialized read");
  else
    EXPECT_LT(count_orders([] { return passes_through_shared(false); }), kOrders);
}

__global__ void shuffle_half(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(kAll, 1, 0);
}

TEST(Warps, ExitedLanesDoNotBlockAShuffle) {
  const DeviceArray<int> y(std::vector<int>(32, 0));
  launch(shuffle_half, 1, 32, 0, nullptr, y.data());  // a GPU also permits exited lanes in the mask
  EXPECT_EQ(y.values()[0], 1);
}

__global__ void diverge(int* y) {
  if (threadIdx.x < 16)
    y[threadIdx.x] = __shfl_sync(kAll, 1, 0);
  else
    y[threadIdx.x] = static_cast<int>(__ballot_sync(kAll, 1));
}

TEST(Warps, DivergenceIsReported) {
  const auto run = [] {
    const DeviceArray<int> y(32);
    launch(diverge, 1, 32, 0, nullptr, y.data());
  };
  EXPECT_ABORTS(run(),
                "divergent warp: __ballot_sync with mask ffffffff at .*test_warps.cu:[0-9]+, but "
                "__shfl_sync");
}

__global__ void not_in_mask() { __syncwarp(0xfffffffeu); }

TEST(Warps, ALaneOutsideOfItsMaskIsReported) {
  EXPECT_ABORTS((launch(not_in_mask, 1, 32, 0, nullptr), cudaDeviceSynchronize()),
                "__syncwarp at .*with mask fffffffe does not include the calling lane 0");
}

}  // namespace
}  // namespace linea::cuda

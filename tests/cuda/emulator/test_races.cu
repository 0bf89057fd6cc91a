// Blocks of one launch that touch the same memory, and atomics that may.
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr int kBlocks = 8, kThreads = 64;

enum class Sum { atomically, plainly };

__global__ void sum_columns(float* sums, const float* x, Sum how) {
  const int column = static_cast<int>(threadIdx.x);
  const float value = x[blockIdx.x * kThreads + threadIdx.x];
  if (how == Sum::atomically)
    atomicAdd(&sums[column], value);
  else
    sums[column] += value;
}

bool sums_columns(Sum how) {
  const DeviceArray<float> x(counted<float>(kBlocks * kThreads)),
      sums(std::vector<float>(kThreads, 0));
  launch(sum_columns, kBlocks, kThreads, 0, nullptr, sums.data(), x.data(), how);
  return sums.values()[3] == 28 * kThreads + 3 * kBlocks;
}

TEST(Races, AtomicsAreNone) {
  EXPECT_EQ(count_orders([] { return sums_columns(Sum::atomically); }), kOrders);
}

TEST(Races, BetweenBlocksShow) {
  if (!kChecked) GTEST_SKIP() << "seen by the checker alone: test_emulator_checked runs it";
  EXPECT_STOPS(sums_columns(Sum::plainly),
               "race on global memory, byte 0 of 256 bytes .*: a write by another block, then a "
               "read by thread 0 "
               "with nothing that orders them");
}

// Two launches on one stream are in order.
TEST(Races, BetweenLaunchesAreNone) {
  const DeviceArray<float> x(counted<float>(kThreads)), sums(std::vector<float>(kThreads, 0));
  for (int i = 0; i < 3; ++i)
    launch(sum_columns, 1, kThreads, 0, nullptr, sums.data(), x.data(), Sum::plainly);
  EXPECT_EQ(sums.values()[5], 15);
}

__global__ void count_in_shared(int* counts, const int* x) {
  __shared__ int counted[16];
  if (threadIdx.x < 16) counted[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&counted[x[blockIdx.x * blockDim.x + threadIdx.x] % 16], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], counted[threadIdx.x]);
}

TEST(Races, AtomicsOfSharedMemoryAreNone) {
  const DeviceArray<int> x(counted<int>(512)), counts(std::vector<int>(16, 0));
  const auto right = [&] {
    check_cuda(cudaMemset(counts.data(), 0, 64), "cudaMemset");
    launch(count_in_shared, 2, 256, 0, nullptr, counts.data(), x.data());
    return counts.values() == std::vector<int>(16, 32);
  };
  EXPECT_EQ(count_orders(right), kOrders);
}

template <typename T>
__global__ void all_atomics(T* y) {
  const T number = static_cast<T>(threadIdx.x);
  atomicAdd(&y[0], number);
  atomicMax(&y[1], number);
  atomicMin(&y[2], number);
  atomicOr(&y[3], T(1) << threadIdx.x);
  atomicAnd(&y[4], ~(T(1) << threadIdx.x));
  atomicXor(&y[5], number);
  atomicExch(&y[6], T(9));
  atomicCAS(&y[7], number, number + 1);
}

template <typename T>
void expect_atomics() {
  const DeviceArray<T> y(std::vector<T>{0, 0, 99, 0, T(0x7fffffff), 0, 0, 0});
  launch(all_atomics<T>, 1, 20, 0, nullptr, y.data());
  EXPECT_EQ(y.values(), (std::vector<T>{190, 19, 0, 0xfffff, 0x7ff00000, 0, 9, 20}));
}

TEST(Races, AtomicsOfWholeNumbers) {
  expect_atomics<int>();
  expect_atomics<unsigned>();
  expect_atomics<unsigned long long>();
}

__global__ void add_reals(double* y, __nv_bfloat16* z) {
  atomicAdd(y, 0.5);
  atomicAdd(z, __float2bfloat16(0.5f));
}

TEST(Races, AtomicsOfOtherReals) {
  const DeviceArray<double> y(std::vector<double>{0});
  const DeviceArray<__nv_bfloat16> z(std::vector<__nv_bfloat16>{__float2bfloat16(0)});
  launch(add_reals, 2, 32, 0, nullptr, y.data(), z.data());
  EXPECT_EQ(y.values()[0], 32);
  EXPECT_EQ(__bfloat162float(z.values()[0]), 32);
}

}  // namespace
}  // namespace linea::cuda

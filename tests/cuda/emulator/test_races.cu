// Accesses to the same memory from several blocks of a launch: races and atomics.
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr int kBlocks = 8, kThreads = 64;

enum class Sum { atomic, non_atomic };

__global__ void sum_columns(float* sums, const float* x, Sum how) {
  const int column = static_cast<int>(threadIdx.x);
  const float value = x[blockIdx.x * kThreads + threadIdx.x];
  if (how == Sum::atomic)
    atomicAdd(&sums[column], value);
  else
    sums[column] += value;
}

bool sums_columns(Sum how) {
  const DeviceArray<float> x(iota<float>(kBlocks * kThreads)),
      sums(std::vector<float>(kThreads, 0));
  launch(sum_columns, kBlocks, kThreads, 0, nullptr, sums.data(), x.data(), how);
  return sums.values()[3] == 28 * kThreads + 3 * kBlocks;
}

TEST(Races, NotBetweenAtomics) {
  EXPECT_EQ(count_orders([] { return sums_columns(Sum::atomic); }), kOrders);
}

TEST(Races, BetweenBlocksAreReported) {
  if (!kChecked) GTEST_SKIP() << "only test_emulator_checked detects this";
  EXPECT_ABORTS(
      sums_columns(Sum::non_atomic),
      "data race on global memory, byte 0 of 256 bytes .*: a write by another block, then "
      "an unordered read by thread 0");
}

// Launches on one stream are ordered.
TEST(Races, NotBetweenLaunches) {
  const DeviceArray<float> x(iota<float>(kThreads)), sums(std::vector<float>(kThreads, 0));
  for (int i = 0; i < 3; ++i)
    launch(sum_columns, 1, kThreads, 0, nullptr, sums.data(), x.data(), Sum::non_atomic);
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

TEST(Races, NotBetweenSharedMemoryAtomics) {
  const DeviceArray<int> x(iota<int>(512)), counts(std::vector<int>(16, 0));
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

TEST(Races, IntegerAtomics) {
  expect_atomics<int>();
  expect_atomics<unsigned>();
  expect_atomics<unsigned long long>();
}

__global__ void add_reals(double* y, __nv_bfloat16* z) {
  atomicAdd(y, 0.5);
  atomicAdd(z, __float2bfloat16(0.5f));
}

TEST(Races, DoubleAndBf16Atomics) {
  const DeviceArray<double> y(std::vector<double>{0});
  const DeviceArray<__nv_bfloat16> z(std::vector<__nv_bfloat16>{__float2bfloat16(0)});
  launch(add_reals, 2, 32, 0, nullptr, y.data(), z.data());
  EXPECT_EQ(y.values()[0], 32);
  EXPECT_EQ(__bfloat162float(z.values()[0]), 32);
}

}  // namespace
}  // namespace linea::cuda

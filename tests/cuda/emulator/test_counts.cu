// What the emulator counts of accesses (cuda/emulator/counts.h), on kernels whose counts are known.
#include "cuda/emulator/counts.h"

#include <cuda_pipeline_primitives.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "cuda/emulator/checker.h"
#include "cuda/ptx.h"
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

using emulator::AccessCount;
using emulator::KernelCounts;

// The counts of one launch.
template <typename... Params, typename... Arguments>
KernelCounts counts_of(void (*kernel)(Params...), int threads, Arguments... arguments) {
  emulator::kernel_counts().clear();
  settings().counts = true;
  launch(kernel, 1, static_cast<unsigned>(threads), 0, nullptr, arguments...);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  settings().counts = false;
  return emulator::kernel_counts()[reinterpret_cast<const void*>(kernel)];
}

std::string text(const AccessCount& count) {
  return fmt::format("{} accesses of {} lanes and {} bytes: {} units of {}", count.accesses,
                     count.lanes, count.bytes, count.units, count.min_units);
}

class Counts : public testing::Test {
 protected:
  void SetUp() override {
    if (emulator::checker == nullptr) GTEST_SKIP() << "only test_emulator_checked counts";
  }
};

template <typename T>
__global__ void copy_strided(const T* from, T* to, int stride, int first) {
  const int i = static_cast<int>(threadIdx.x);
  to[i] = from[i * stride + first];
}

template <typename T>
KernelCounts copied(int threads, int stride, int first = 0) {
  const DeviceArray<char> from(std::vector<char>(1 << 14)), to(1 << 14);
  return counts_of(copy_strided<T>, threads, reinterpret_cast<const T*>(from.data()),
                   reinterpret_cast<T*>(to.data()), stride, first);
}

TEST_F(Counts, SectorsOfAdjacentLanes) {
  const KernelCounts narrow = copied<float>(64, 1), wide = copied<float4>(64, 1),
                     half = copied<uint16_t>(32, 1);
  EXPECT_EQ(text(narrow.global_loads), "2 accesses of 64 lanes and 256 bytes: 8 units of 8");
  EXPECT_EQ(text(narrow.global_stores), text(narrow.global_loads));
  EXPECT_EQ(text(wide.global_loads), "2 accesses of 64 lanes and 1024 bytes: 32 units of 32");
  EXPECT_EQ(text(wide.global_stores), text(wide.global_loads));
  EXPECT_EQ(text(half.global_loads), "1 accesses of 32 lanes and 64 bytes: 2 units of 2");
  EXPECT_EQ(narrow.shared_loads.accesses + narrow.shared_stores.accesses, 0u);
}

TEST_F(Counts, SectorsOfLanesThatAreApartOrNot) {
  EXPECT_EQ(text(copied<float>(32, 2).global_loads),
            "1 accesses of 32 lanes and 128 bytes: 8 units of 4");
  EXPECT_EQ(text(copied<float>(32, 64).global_loads),
            "1 accesses of 32 lanes and 128 bytes: 32 units of 4");
  EXPECT_EQ(text(copied<float>(32, 1, 1).global_loads),  // not aligned
            "1 accesses of 32 lanes and 128 bytes: 5 units of 4");
  EXPECT_EQ(text(copied<float>(32, 0).global_loads),  // all of one element
            "1 accesses of 32 lanes and 128 bytes: 1 units of 1");
  EXPECT_EQ(text(copied<float>(7, 1).global_loads),
            "1 accesses of 7 lanes and 28 bytes: 1 units of 1");
}

__global__ void double_elements(const float4* from, float4* to) {
  float4 x = from[threadIdx.x];
  x.x *= 2;
  x.w *= 2;
  to[threadIdx.x] = x;
}

// A vector whose elements are used one by one is still one access.
TEST_F(Counts, SectorsOfVectors) {
  const DeviceArray<float4> x(std::vector<float4>(32)), y(32);
  const KernelCounts counts =
      counts_of(double_elements, 32, static_cast<const float4*>(x.data()), y.data());
  EXPECT_EQ(text(counts.global_loads), "1 accesses of 32 lanes and 512 bytes: 16 units of 16");
  EXPECT_EQ(text(counts.global_stores), text(counts.global_loads));
}

template <typename T>
__global__ void read_shared(T* y, int stride) {
  alignas(16) __shared__ float values[64 * 32];
  const int i = static_cast<int>(threadIdx.x);
  for (int k = i; k < 64 * 32; k += 32) values[k] = 0;
  __syncthreads();
  y[i] = reinterpret_cast<const T*>(values)[i * stride];
}

// The passes of one warp's load, and those without conflicts.
template <typename T>
std::string passes(int stride) {
  const DeviceArray<T> y(32);
  const KernelCounts counts = counts_of(read_shared<T>, 32, y.data(), stride);
  EXPECT_EQ(text(counts.shared_stores), "64 accesses of 2048 lanes and 8192 bytes: 64 units of 64");
  EXPECT_EQ(counts.shared_loads.accesses, 1u);
  return fmt::format("{} of {}", counts.shared_loads.units, counts.shared_loads.min_units);
}

TEST_F(Counts, BankConflicts) {
  EXPECT_EQ(passes<float>(1), "1 of 1");
  EXPECT_EQ(passes<float>(2), "2 of 1");
  EXPECT_EQ(passes<float>(32), "32 of 1");
  EXPECT_EQ(passes<float>(33), "1 of 1");  // columns of padded rows
  EXPECT_EQ(passes<float>(0), "1 of 1");   // one word for all lanes
  EXPECT_EQ(passes<uint16_t>(1), "1 of 1");
  EXPECT_EQ(passes<uint16_t>(64), "32 of 1");
}

// A half of the warp at a time, or a quarter.
TEST_F(Counts, BankConflictsOfWideLanes) {
  EXPECT_EQ(passes<float2>(1), "2 of 2");
  EXPECT_EQ(passes<float2>(2), "4 of 2");
  EXPECT_EQ(passes<float2>(16), "32 of 2");
  EXPECT_EQ(passes<float4>(1), "4 of 4");
  EXPECT_EQ(passes<float4>(2), "8 of 4");
  EXPECT_EQ(passes<float4>(9), "4 of 4");
  EXPECT_EQ(passes<float4>(0), "4 of 4");
}

__global__ void load_matrix(const float4* x, uint32_t* y, int row) {
  __shared__ float4 rows[32 * 9];
  const int i = static_cast<int>(threadIdx.x);
  __pipeline_memcpy_async(rows + i * row, x + i, 16, 0);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
  uint32_t r[4];
  ldmatrix<false>(r, rows + i * row);
  y[i] = r[0];
}

// A copy counts where it is started, a matrix in the lane that has the address of its row.
TEST_F(Counts, AsynchronousCopiesAndMatrices) {
  const DeviceArray<float4> x(std::vector<float4>(32));
  const DeviceArray<uint32_t> y(32);
  for (const auto& [row, units] : {std::pair{1, 4}, {8, 32}, {9, 4}}) {
    const KernelCounts counts =
        counts_of(load_matrix, 32, static_cast<const float4*>(x.data()), y.data(), row);
    EXPECT_EQ(text(counts.global_loads), "1 accesses of 32 lanes and 512 bytes: 16 units of 16");
    const std::string expected =
        fmt::format("1 accesses of 32 lanes and 512 bytes: {} units of 4", units);
    EXPECT_EQ(text(counts.shared_stores), expected) << row;
    EXPECT_EQ(text(counts.shared_loads), expected) << row;
  }
}

// Lane t loads t % 4 times; even lanes store once more before the warp meets.
__global__ void diverge(const float* x, float* y, int meets) {
  const int t = static_cast<int>(threadIdx.x);
  float sum = 0;
#pragma GCC unroll 1
  for (int i = 0; i < t % 4; ++i) sum += x[i * 32 + t];
#pragma GCC unroll 1
  for (int i = 0; i < 2; ++i) {
    if (i == 1 || t % 2 == 0) y[i * 32 + t] = sum;
    if (meets == 1) __syncwarp();
    if (meets == 2) __syncthreads();
  }
}

TEST_F(Counts, LanesAreGroupedByHowOftenTheyCame) {
  const DeviceArray<float> x(std::vector<float>(128)), y(64);
  for (int meets = 0; meets < 3; ++meets) {
    const auto right = [&] {
      const KernelCounts counts =
          counts_of(diverge, 32, static_cast<const float*>(x.data()), y.data(), meets);
      EXPECT_EQ(text(counts.global_loads), "3 accesses of 48 lanes and 192 bytes: 12 units of 6");
      // Apart, even lanes store to the first row, then all to the second.
      return text(counts.global_stores) ==
             (meets == 0 ? "2 accesses of 48 lanes and 192 bytes: 12 units of 6"
                         : "2 accesses of 48 lanes and 192 bytes: 8 units of 6");
    };
    EXPECT_EQ(count_orders(right), kOrders) << meets;
  }
}

TEST_F(Counts, OnlyWhereTheyAreAskedFor) {
  copied<float>(32, 1);
  emulator::kernel_counts().clear();
  const DeviceArray<float> x(std::vector<float>(32)), y(32);
  launch(copy_strided<float>, 1, 32, 0, nullptr, static_cast<const float*>(x.data()), y.data(), 1,
         0);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_TRUE(emulator::kernel_counts().empty());
}

[[noreturn]] void count_into(const std::string& file) {
  setenv("LINEA_EMULATOR_COUNTS", file.c_str(), 1);
  copied<float>(32, 2);
  std::exit(0);
}

TEST(CountsDeathTest, AreWrittenToAFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string file = testing::TempDir() + "linea-counts.txt";
  if (emulator::checker == nullptr) {
    EXPECT_DEATH(count_into(file), "only programs with the checker");
    return;
  }
  EXPECT_EXIT(count_into(file), testing::ExitedWithCode(0), "");
  std::ifstream stream(file);
  const std::string written{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_NE(written.find("graphs: 0 kernels, 0 memsets, 0 copies\n"), std::string::npos) << written;
  EXPECT_NE(written.find("copy_strided<float>(float const*, float*, int, int)\tglobal load\t"
                         "1\t32\t128\t8\t4\n"),
            std::string::npos)
      << written;
  std::remove(file.c_str());
}

}  // namespace
}  // namespace linea::cuda

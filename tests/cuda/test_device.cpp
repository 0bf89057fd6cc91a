// Choosing a device, its memory and its account.
#include <cuda_runtime_api.h>

#include <functional>
#include <numeric>

#include "bench/device_rates.h"
#include "cuda/kernel_tables.h"
#include "nn/attention.h"
#include "tensor/backend.h"
#include "tensor/caching_allocator.h"
#include "tests/cuda/parity.h"
#include "tests/expect_error.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaDevice, IsSelectedOnTheCommandLine) {
  EXPECT_EQ(parse_device("cpu"), Device{});
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceKind::cuda, 3}));
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "3"})
    EXPECT_THROW(parse_device(text), Error) << text;
}

TEST(CudaDevice, ReportsTheTimeOfALaunch) {
  const On device(kCuda);
  EXPECT_GT(launch_seconds(), 0);
}

// `linea info` makes every attention afterwards, of which some have no kernels for CUDA.
TEST(CudaDevice, RatesLeaveTheContext) {
  EXPECT_EQ(rates_of_cuda().size(), 2u);
  EXPECT_EQ(context().device, Device{});
}

TEST(CudaDevice, TensorsAreOnTheContextsDevice) {
  const Tensor before({3}, DType::f32);
  EXPECT_EQ(before.device(), Device{});
  const On device(kCuda);
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  EXPECT_EQ(x.device(), kCuda);
  EXPECT_EQ(x.clone().to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(Tensor::zeros({2}, DType::f64).to_vector<double>(), (std::vector<double>{0, 0}));
}

// A mechanism that is written for the CPU first.
TEST(CudaDevice, RefusesWhatOnlyTheCpuHas) {
  struct SomeKernels {
    void (*forward)(Context&, const float* x, int64_t n);
    void (*step)(Context&);
  };
  const SomeKernels kernels = {.forward = cuda::NoKernel<"gla">(), .step = cuda::NoKernel<"gla">()};
  for (const std::function<void()>& call :
       {std::function<void()>([&] { kernels.forward(context(), nullptr, 0); }),
        std::function<void()>([&] { kernels.step(context()); })})
    expect_error(ErrorKind::usage, {"gla has no kernels for `device` cuda yet"}, call);

  register_attention({.name = "cpu-only",
                      .summary = "",
                      .source = "",
                      .settings = {},
                      .make = [](const AttentionOptions&) { return make_attention({"linear"}); },
                      .variants = {},
                      .cpu_only = true});
  EXPECT_NE(make_attention({"cpu-only"}), nullptr);
  const On device(kCuda);
  expect_error(ErrorKind::usage, {"`attention` cpu-only", "`device` cuda"},
               [] { make_attention({"cpu-only"}); });
  EXPECT_NE(make_attention({"linear", {{"rule", "gated-delta"}}}), nullptr);
  for (const Settings& settings :
       {Settings{{"rule", "decay"}}, Settings{{"rule", "delta"}, {"key_norm", "unit"}},
        Settings{{"rule", "gated-delta"}, {"decay", "fixed"}}})
    expect_error(ErrorKind::usage, {"`device` cuda", "leave `device` out"}, [&] {
      make_attention({"linear", settings});
    });
}

TEST(CudaDevice, RefusesBf16WhereOnlyFloatsAreUsed) {
  const On device(kCuda);
  const Kernels<BFloat16>& of = table<BFloat16>();
  expect_error(ErrorKind::usage, {"FeatureKernels", "f32 or f64, not bf16"},
               [&] { of.quadratic_features(context(), nullptr, nullptr, 1, 1); });
  expect_error(ErrorKind::usage, {"DeltaStepKernels", "f32 or f64, not bf16"},
               [&] { of.delta_step(context(), {}, {}, nullptr, nullptr); });
  ChunkShape logs{1, 1, 1, 1, 1};
  logs.kind = FeatureKind::logs;
  expect_error(ErrorKind::usage, {"logs, weights and decays", "f32 or f64, not bf16"},
               [&] { of.chunk_forward(context(), logs, {}, {}, {}, {}); });
}

// More writes than there are slots on the way, one that is larger than all of them, and nothing:
// what was given, though the host's memory changes at once.
TEST(CudaDevice, HostWritesAreOrdered) {
  const On device(kCuda);
  constexpr int kWrites = 20;
  const Tensor x({kWrites, 1000}, DType::i32);
  std::vector<int32_t> host(1000);
  for (int i = 0; i < kWrites; ++i) {
    std::fill(host.begin(), host.end(), i);
    device_memory(kCuda).write(context(), x.data<int32_t>() + i * 1000, host.data(), 4000);
  }
  std::vector<int32_t> large((size_t{10} << 18) + 7);
  std::iota(large.begin(), large.end(), 5);
  const std::vector<int32_t> given = large;
  const Tensor y({static_cast<int64_t>(large.size())}, DType::i32), nothing({0}, DType::i32);
  device_memory(kCuda).write(context(), y.data<int32_t>(), large.data(), large.size() * 4);
  device_memory(kCuda).write(context(), nothing.data<int32_t>(), large.data(), 0);
  std::fill(large.begin(), large.end(), 0);
  const std::vector<int32_t> found = x.to_vector<int32_t>();
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(found[i], static_cast<int32_t>(i / 1000)) << i;
  EXPECT_EQ(y.to_vector<int32_t>(), given);
}

TEST(CudaDevice, ReportsItsMemory) {
  const On device(kCuda);
  const size_t before = device_allocator().use().held;
  device_allocator().reset_peak();
  {
    const Tensor x({1000}, DType::f32);
    EXPECT_GE(device_allocator().use().held, before + 4000);
  }
  EXPECT_EQ(device_allocator().use().held, before);
  EXPECT_GE(device_allocator().use().peak, before + 4000);
}

// What the driver keeps for this program.
uint64_t kept_by_the_driver() {
  cudaMemPool_t pool = nullptr;
  uint64_t bytes = 0;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes), cudaSuccess);
  return bytes;
}

TEST(CudaDevice, ReleasesItsCache) {
  const On device(kCuda);
  constexpr int64_t kElements = int64_t{1} << 25;
  device_allocator().release_cache();
  const uint64_t before = kept_by_the_driver();
  { const Tensor x({kElements}, DType::f32); }
  EXPECT_GE(kept_by_the_driver(), before + kElements * 4 * (kSanitized ? 0 : 1));
  device_allocator().release_cache();
  EXPECT_LE(kept_by_the_driver(), before + kElements / 2);
}

TEST(CudaDevice, OutOfMemoryReportsTheUsage) {
  const On device(kCuda);
  try {
    const Tensor x({int64_t{1} << 40}, DType::f32);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.kind(), ErrorKind::memory);
    EXPECT_NE(std::string(error.what()).find("the device has"), std::string::npos) << error.what();
  }
}

TEST(CudaDevice, AMissingDeviceIsRefused) {
  EXPECT_THROW(use_device({DeviceKind::cuda, 4095}), Error);
  EXPECT_EQ(context().device, Device{});
}

}  // namespace
}  // namespace linea::cuda_tests

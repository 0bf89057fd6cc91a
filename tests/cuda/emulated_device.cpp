// What only an emulated machine can be asked to be: without a device, old, or short of memory.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "bench/device_rates.h"
#include "cuda/emulator/settings.h"
#include "tensor/backend.h"
#include "tensor/memory_report.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// Uses `device` of an emulated machine with this setting, in a process that has not started one yet.
[[noreturn]] void start_on(const char* setting, const char* value, Device device = kCuda) {
  setenv(setting, value, 1);
  try {
    use_device(device);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(error.exit_code());
  }
  std::exit(0);
}

TEST(CudaDeviceDeathTest, DevicesThatCannotBeUsedAreRefused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(start_on("LINEA_EMULATOR_DEVICES", "0"), testing::ExitedWithCode(2),
              "this machine has no CUDA device.*leave `device` out or say cpu");
  EXPECT_EXIT(start_on("LINEA_EMULATOR_CAPABILITY", "75"), testing::ExitedWithCode(2),
              "'cuda:0', of compute capability 7.5: kernels need 8.0 or more");
  EXPECT_EXIT(start_on("LINEA_EMULATOR_DEVICES", "2", {DeviceKind::cuda, 2}),
              testing::ExitedWithCode(2), "has 2 CUDA devices, the first being cuda:0");
}

TEST(CudaDeviceDeathTest, ADeviceWithoutCodeSaysThatItsDriverCompiles) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(start_on("LINEA_EMULATOR_CAPABILITY", "120"), testing::ExitedWithCode(0),
              "cuda:0 has compute capability 12.0, .*LINEA_CUDA_ARCHITECTURES=120-real");
  EXPECT_EXIT(start_on("LINEA_EMULATOR_CAPABILITY", "89"), testing::ExitedWithCode(0), "^$");
}

// What other tensors left free is the driver's, before memory is said to be out.
TEST(CudaMemory, TakesWhatOthersHaveReleased) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  device_allocator().release_cache();
  size_t& memory = emulator::settings().memory;
  const size_t before = std::exchange(memory, device_allocator().use().held + (size_t{256} << 20));
  constexpr int64_t kElements = (int64_t{140} << 20) / 4;
  { const Tensor released({kElements}, DType::f32); }
  const auto takes_as_much = [] { const Tensor x({kElements}, DType::f32); };
  EXPECT_TRUE(recorder->run(0, takes_as_much));
  recorder.reset();
  { const Tensor released({kElements}, DType::f32); }
  recorder = make_graph_recorder();  // its limit is not what others hold without use
  EXPECT_TRUE(recorder->run(0, takes_as_much));
  recorder.reset();
  memory = before;
  device_allocator().release_cache();
}

// Memory that is free between replays of a graph is the graph's.
TEST(CudaMemory, AGraphKeepsItsFreeBlocks) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  device_allocator().release_cache();
  size_t& memory = emulator::settings().memory;
  const size_t before = std::exchange(memory, device_allocator().use().held + (size_t{256} << 20));
  std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  const auto fill = [](int64_t bytes) { return [=] { Tensor::zeros({bytes / 4}, DType::f32); }; };
  const auto writes_half = fill(int64_t{100} << 20);
  for (int step = 0; step < 2; ++step) EXPECT_TRUE(recorder->run(0, writes_half));
  EXPECT_THROW(recorder->run(1, fill(int64_t{150} << 20)), OutOfMemory);
  EXPECT_TRUE(recorder->run(0, writes_half));
  recorder.reset();
  recorder = make_graph_recorder();
  EXPECT_TRUE(recorder->run(1, fill(int64_t{150} << 20)));
  recorder.reset();
  memory = before;
  device_allocator().release_cache();
}

// `linea info` prints the reason and continues.
TEST(CudaDeviceDeathTest, RatesOfADeviceThatCannotBeUsedSayWhy) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("LINEA_EMULATOR_CAPABILITY", "75", 1);
        std::fprintf(stderr, "%s\n", rates_of_cuda().at(0).c_str());
        std::exit(context().device == Device{} ? 0 : 1);
      },
      testing::ExitedWithCode(0), "kernels need 8.0 or more");
}

TEST(CudaDeviceDeathTest, AnyDeviceOfSeveralIsUsed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(start_on("LINEA_EMULATOR_DEVICES", "2", {DeviceKind::cuda, 1}),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace linea::cuda_tests

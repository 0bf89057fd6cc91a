// What only an emulated machine can be asked to be: one without a device.
#include <cstdio>
#include <cstdlib>

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// In a process of its own, which has not started the device yet.
TEST(CudaDeviceDeathTest, WithoutADeviceItIsAnError) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("LINEA_EMULATOR_DEVICES", "0", 1);
        try {
          use_device(kCuda);
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::exit(error.exit_code());
        }
      },
      testing::ExitedWithCode(2), "this machine has no CUDA device.*leave `device` out or say cpu");
}

}  // namespace
}  // namespace linea::cuda_tests

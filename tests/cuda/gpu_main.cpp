// The backend's tests on a real GPU. Without one they are skipped aloud.
#include <gtest/gtest.h>

#include <cstdio>

#include "tensor/backend.h"
#include "tests/cuda/parity.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (linea::cuda_devices().empty()) {
    std::printf("SKIPPED: %d tests on a GPU; this machine has no CUDA device\n",
                testing::UnitTest::GetInstance()->total_test_count());
    return 77;
  }
  linea::cuda_tests::real_gpu = true;
  return RUN_ALL_TESTS();
}

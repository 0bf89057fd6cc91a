#include "base/subnormals.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace linea {
namespace {

// 1e-40, which no compiler computes in advance.
float tiny_product() {
  volatile float a = 1e-20f, b = 1e-20f;
  return a * b;
}

TEST(Subnormals, AreZeroInAThreadAndInThoseThatItStarts) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  GTEST_SKIP() << "this processor computes with them";
#endif
  EXPECT_GT(tiny_product(), 0.0f);
  std::thread([] {
    flush_subnormals();
    EXPECT_EQ(tiny_product(), 0.0f);
    std::vector<float> products(4, 1.0f);
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 4; ++i) products[static_cast<size_t>(i)] = tiny_product();
    EXPECT_EQ(products, std::vector<float>(4, 0.0f));
    volatile float subnormal = 1e-40f;
    EXPECT_EQ(subnormal * 1e10f, 0.0f);
  }).join();
  EXPECT_GT(tiny_product(), 0.0f) << "of other threads nothing changes";
}

}  // namespace
}  // namespace linea

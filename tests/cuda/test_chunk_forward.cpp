#include "tests/cuda/chunk_problem.h"
#include "tests/cuda/chunk_settings.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaChunkForward, EverySize) {
  if (a_share()) GTEST_SKIP() << "the backward pass's tests go through the forward pass too";
  for (const ChunkSetting& s : every_size()) {
    SCOPED_TRACE(describe(s));
    expect_parity_of(s, [&](auto t) { return ChunkProblem<decltype(t)>(s).forward(); });
  }
}

TEST(CudaChunkForward, TheSameBitsEachTime) {
  if (a_share()) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const On device(kCuda);
  for (const ChunkSetting& s : far_logs()) {
    const std::vector<Tensor> once = ChunkProblem<float>(s).all(),
                              again = ChunkProblem<float>(s).all();
    for (size_t i = 0; i < once.size(); ++i)
      EXPECT_EQ(numbers(once[i]), numbers(again[i])) << describe(s) << i;
  }
}

// Whatever follows, outputs keep their bits.
TEST(CudaChunkForward, OutputsAreCausal) {
  const On device(kCuda);
  std::vector<ChunkSetting> settings = far_logs();
  settings.push_back({});
  for (ChunkSetting s : settings) {
    s.by_head = false;
    for (const int64_t changed : {40, 64, 100}) {
      if (changed >= s.N || (kSanitized && changed != 64)) continue;
      ChunkProblem<float> problem(s), other(s);
      other.change_from(changed, 7.0);
      const std::vector<double> y = numbers(problem.forward()[0]), y2 = numbers(other.forward()[0]);
      int64_t differ = 0, after = 0;
      for (size_t e = 0; e < y.size(); ++e) {
        const int64_t i = static_cast<int64_t>(e) / s.M % s.N;
        (i < changed ? differ : after) += y[e] != y2[e] && !(std::isnan(y[e]) && std::isnan(y2[e]));
      }
      EXPECT_EQ(differ, 0) << describe(s) << " from " << changed;
      EXPECT_TRUE(after > 0 || s.lost == 1.0) << describe(s);
    }
  }
}

}  // namespace
}  // namespace linea::cuda_tests

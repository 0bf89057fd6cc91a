#include "tests/cuda/chunk_problem.h"
#include "tests/cuda/chunk_settings.h"

namespace linea::cuda_tests {
namespace {

void expect_alike(const ChunkSetting& s, Bounds bounds = {}) {
  SCOPED_TRACE(describe(s));
  // y and the factors are rounded to bf16; a sum of relus can be small, and gradients are divided by
  // it.
  bounds.bf16 = s.feature == KernelFeature::relu ? 0.1 : 0.02;
  expect_parity_of(
      s, [&](auto t) { return ChunkProblem<decltype(t)>(s).all(); }, bounds);
}

TEST(CudaChunkBackward, EveryKindOfSum) {
  if (kSanitized) GTEST_SKIP() << "too slow here; the release build's tests do it";
  for (const ChunkSetting& s : every_kind()) expect_alike(s);
}

TEST(CudaChunkBackward, EverySize) {
  const std::vector<ChunkSetting> all = every_size();
  for (size_t i = 0; i < all.size(); i += kSanitized ? 3 : 1) expect_alike(all[i]);
}

TEST(CudaChunkBackward, FarLogs) {
  if (kSanitized) GTEST_SKIP() << "too slow here; the release build's tests do it";
  for (const ChunkSetting& s : far_logs()) expect_alike(s, kFarBounds);
}

}  // namespace
}  // namespace linea::cuda_tests

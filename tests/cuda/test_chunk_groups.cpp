// Groups of few chunks against the CPU, which has none.
#include "tests/cuda/chunk_problem.h"
#include "tests/cuda/chunk_settings.h"

namespace linea::cuda_tests {
namespace {

// The last chunk, and the last group, have rows and chunks left over.
constexpr int64_t kLength = 270;

std::vector<ChunkSetting> settings() {
  std::vector<ChunkSetting> all;
  for (const bool padded : {false, true})
    for (const bool causal : {true, false}) {
      ChunkSetting s;
      s.feature = padded ? KernelFeature::elu : KernelFeature::given;
      s.causal = causal;
      s.padded = padded;
      s.by_head = !padded;
      s.N = kLength;
      s.F = 12;
      s.M = 9;
      all.push_back(s);
      s.segment = 200;  // a state goes from one to the next
      s.hints = !s.hints;
      all.push_back(s);
    }
  return all;
}

void expect_alike(ChunkSetting s, int64_t blocks) {
  s.blocks = blocks;
  SCOPED_TRACE(describe(s));
  Bounds bounds;
  bounds.bf16 = 0.03;  // factors are rounded
  expect_parity_of(
      s, [&](auto t) { return ChunkProblem<decltype(t)>(s).all(); }, bounds);
}

TEST(CudaChunkGroups, EverySize) {
  const std::vector<ChunkSetting> all = settings();
  for (size_t i = 0; i < all.size(); i += kSanitized ? 5 : 1)
    expect_alike(all[i], i % 4 < 3 ? static_cast<int64_t>(i % 4) : 4);
}

// More than one tile of features, and of values.
TEST(CudaChunkGroups, Wide) {
  for (const bool features : {true, false}) {
    if (kSanitized && !features) continue;
    ChunkSetting s;
    s.N = 250;
    s.F = features ? 130 : 70;
    s.M = features ? 70 : 150;
    expect_alike(s, 1);
  }
}

TEST(CudaChunkGroups, OfRowsWithScales) {
  for (const int rule : {1, 2}) {
    ChunkSetting s;
    s.kind = rule == 2 ? FeatureKind::logs : FeatureKind::values;
    s.weights = s.decays = rule == 1;
    s.padded = true;
    s.N = 330;
    expect_alike(s, 1);
  }
}

// Whatever follows, outputs keep their bits; what comes before changes them.
TEST(CudaChunkGroups, OutputsAreCausal) {
  const On device(kCuda);
  ChunkSetting s;
  s.N = kLength;
  s.by_head = false;
  for (const int64_t blocks : {1, 512})
    for (const int64_t changed : {70, 128, 250, 260}) {
      if (kSanitized && changed != 250) continue;
      s.blocks = blocks;
      ChunkProblem<BFloat16> problem(s), other(s);
      other.change_from(changed, 7.0);
      const std::vector<double> y = numbers(problem.forward()[0]), y2 = numbers(other.forward()[0]);
      int64_t before = 0, same = 0;
      for (size_t e = 0; e < y.size(); ++e) {
        const int64_t i = static_cast<int64_t>(e) / s.M % s.N;
        if (i < changed) before += y[e] != y2[e];
        if (i >= changed) same += y[e] == y2[e];
      }
      EXPECT_EQ(before, 0) << blocks << " blocks, changed from " << changed;
      EXPECT_LT(same, (s.N - changed) * s.M * 4 / 5)
          << blocks << " blocks, changed from " << changed;
    }
}

TEST(CudaChunkGroups, TheSameBitsEachTime) {
  const On device(kCuda);
  ChunkSetting s;
  s.N = kLength;
  s.blocks = 1;
  const std::vector<Tensor> once = ChunkProblem<BFloat16>(s).all(),
                            again = ChunkProblem<BFloat16>(s).all();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(numbers(once[i]), numbers(again[i])) << i;
}

}  // namespace
}  // namespace linea::cuda_tests

// Chunks of one to four tiles, and groups of few blocks, against the CPU, which has neither.
#include "tests/cuda/chunk_problem.h"
#include "tests/cuda/chunk_settings.h"

namespace linea::cuda_tests {
namespace {

// The last chunk, and its last tile, have rows left over: for 2, 3 and 4 tiles a chunk.
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

void expect_alike(ChunkSetting s, int64_t tiles, int64_t blocks) {
  s.tiles = tiles;
  s.blocks = blocks;
  SCOPED_TRACE(describe(s));
  Bounds bounds;
  bounds.bf16 = 0.03;  // factors are rounded
  expect_parity([&](auto t) { return ChunkProblem<decltype(t)>(s).all(); }, bounds);
}

TEST(CudaChunkTiles, EveryCount) {
  const std::vector<ChunkSetting> all = settings();
  for (const int64_t tiles : {1, 2, 3, 4})
    for (size_t i = 0; i < all.size(); i += kSanitized ? 5 : 1)
      expect_alike(all[i], tiles, i % 4 < 3 ? static_cast<int64_t>(i % 4) : 4);
}

// More than one tile of features, and of values.
TEST(CudaChunkTiles, Wide) {
  for (const int64_t tiles : {2, 3}) {
    if (kSanitized && tiles == 3) continue;
    ChunkSetting s;
    s.N = 250;
    s.F = tiles == 2 ? 130 : 70;
    s.M = tiles == 2 ? 70 : 150;
    expect_alike(s, tiles, 1);
  }
}

// Rules that are carried from tile to tile stay at one; their groups may be small.
TEST(CudaChunkTiles, SmallGroups) {
  for (const int rule : {1, 2}) {
    ChunkSetting s;
    s.kind = rule == 2 ? FeatureKind::logs : FeatureKind::values;
    s.weights = s.decays = rule == 1;
    s.padded = true;
    s.N = 330;
    expect_alike(s, 3, 1);
  }
}

// Whatever follows, outputs keep their bits; what comes before changes them.
TEST(CudaChunkTiles, OutputsAreCausal) {
  const On device(kCuda);
  ChunkSetting s;
  s.N = kLength;
  s.by_head = false;
  for (const int64_t tiles : {2, 4})
    for (const int64_t changed : {70, 128, 250, 260}) {
      if (kSanitized && changed != 250) continue;
      s.tiles = tiles;
      s.blocks = 1;
      ChunkProblem<BFloat16> problem(s), other(s);
      other.change_from(changed, 7.0);
      const std::vector<double> y = numbers(problem.forward()[0]), y2 = numbers(other.forward()[0]);
      int64_t before = 0, same = 0;
      for (size_t e = 0; e < y.size(); ++e) {
        const int64_t i = static_cast<int64_t>(e) / s.M % s.N;
        if (i < changed) before += y[e] != y2[e];
        if (i >= changed) same += y[e] == y2[e];
      }
      EXPECT_EQ(before, 0) << tiles << " tiles, changed from " << changed;
      EXPECT_LT(same, (s.N - changed) * s.M * 4 / 5) << tiles << " tiles, changed from " << changed;
    }
}

TEST(CudaChunkTiles, TheSameBitsEachTime) {
  const On device(kCuda);
  ChunkSetting s;
  s.N = kLength;
  s.tiles = 3;
  const std::vector<Tensor> once = ChunkProblem<BFloat16>(s).all(),
                            again = ChunkProblem<BFloat16>(s).all();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(numbers(once[i]), numbers(again[i])) << i;
}

}  // namespace
}  // namespace linea::cuda_tests

// Sums of bf16 rows by walks (cuda/walk.h) against the CPU, and against the kernels of all shapes.
#include "tests/cuda/chunk_problem.h"
#include "tests/cuda/chunk_settings.h"

namespace linea::cuda_tests {
namespace {

// Cuts the chunks of each of the four (batch, head) into `stretches`, where there are as many.
ChunkSetting walk(int64_t N, int64_t D, int64_t stretches = 1) {
  ChunkSetting s;
  s.feature = KernelFeature::elu;
  s.N = N;
  s.F = s.M = D;
  s.blocks = 8 * stretches;
  return s;
}

void expect_alike(const ChunkSetting& s) {
  if (left_out()) return;
  SCOPED_TRACE(describe(s));
  // Factors are rounded. A sum of relus can be small, and gradients are divided by it.
  const double bound = s.feature == KernelFeature::relu ? 0.1 : 0.02;
  expect_close<BFloat16, float>([&](auto t) { return ChunkProblem<decltype(t)>(s).all(); }, bound);
}

TEST(CudaWalks, EveryLength) {
  for (const int64_t N : {1, 63, 64, 65, 1000})
    for (const int64_t D : {32, 64, 128})
      if (!kSanitized || N < 1000) expect_alike(walk(N, D));
}

TEST(CudaWalks, EveryCountOfStretches) {
  for (const int64_t stretches : {2, 5, 100})
    for (const int64_t D : {32, 64, 128})
      if (!kSanitized || D == 32) expect_alike(walk(D == 128 ? 330 : 1000, D, stretches));
}

TEST(CudaWalks, EveryKind) {
  for (const KernelFeature feature :
       {KernelFeature::given, KernelFeature::elu, KernelFeature::relu})
    for (const bool causal : {true, false})
      for (const bool padded : {false, true})
        for (const int64_t stretches : {1, 3}) {
          ChunkSetting s = walk(300, 32, stretches);
          s.feature = feature;
          s.causal = causal;
          s.padded = padded;
          expect_alike(s);
          s.segment = 170;  // a state goes from one to the next
          s.by_head = false;
          expect_alike(s);
          s.hints = false;
          expect_alike(s);
        }
}

// Rows that allow copies of 16 bytes are walked wherever they are; others are not, and get other
// bits.
TEST(CudaWalks, RowsWithGaps) {
  const On device(kCuda);
  for (const int64_t D : {32, 64, 128})
    for (const bool padded : {false, true}) {
      ChunkSetting s = walk(130, D, padded ? 2 : 1);
      s.padded = padded;
      s.causal = D < 128 || !padded;
      const auto results = [&](int64_t gap) {
        s.gap = gap;
        ChunkProblem<BFloat16> problem(s);
        std::vector<std::vector<double>> all;
        for (const Tensor& x : problem.all()) all.push_back(problem.without_gaps(x));
        return all;
      };
      const auto dense = results(0), wide = results(8), general = results(3);
      EXPECT_EQ(dense, wide) << describe(s);
      EXPECT_NE(dense, general) << describe(s);
      for (size_t i = 0; i < dense.size(); ++i)
        EXPECT_LE(distance(dense[i], general[i]), 0.02) << describe(s) << ", tensor " << i;
    }
}

TEST(CudaWalks, TheSameBitsEachTime) {
  const On device(kCuda);
  for (const int64_t stretches : {1, 3}) {
    const ChunkSetting s = walk(300, 64, stretches);
    const std::vector<Tensor> once = ChunkProblem<BFloat16>(s).all(),
                              again = ChunkProblem<BFloat16>(s).all();
    for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(numbers(once[i]), numbers(again[i])) << i;
  }
}

// Whatever follows, outputs keep their bits; what comes before changes them.
TEST(CudaWalks, OutputsAreCausal) {
  const On device(kCuda);
  for (const int64_t stretches : {1, 4})
    for (const int64_t changed : {70, 128, 250}) {
      ChunkSetting s = walk(270, 32, stretches);
      s.by_head = false;
      ChunkProblem<BFloat16> problem(s), other(s);
      other.change_from(changed, 7.0);
      const std::vector<double> y = numbers(problem.forward()[0]), y2 = numbers(other.forward()[0]);
      int64_t before = 0, same = 0;
      for (size_t e = 0; e < y.size(); ++e) {
        const int64_t i = static_cast<int64_t>(e) / s.M % s.N;
        (i < changed ? before : same) += (y[e] != y2[e]) == (i < changed);
      }
      EXPECT_EQ(before, 0) << stretches << " stretches, changed from " << changed;
      EXPECT_LT(same, (s.N - changed) * s.M * 4 / 5) << changed;
    }
}

}  // namespace
}  // namespace linea::cuda_tests

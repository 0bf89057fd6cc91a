#include "tests/cuda/chunk_problem.h"
#include "tests/cuda/chunk_settings.h"

namespace linea::cuda_tests {
namespace {

// Keys that are hard codes: log 1 at the code, log 0 elsewhere.
template <typename T>
std::vector<Tensor> run(const ChunkSetting& s, int64_t D) {
  const int64_t P = ChunkProblem<T>::kPairs;
  std::vector<int32_t> code;
  std::vector<T> logs(P * s.N * s.F, T(-std::numeric_limits<float>::infinity()));
  const std::vector<double> numbers = input<double>({P, s.N}, 77).to_doubles();
  for (int64_t place = 0; place < P * s.N; ++place) {
    const int64_t pair = place / s.N, i = place % s.N;
    const int64_t f = static_cast<int64_t>(std::abs(numbers[place]) * 1000) % s.F;
    const int64_t row = s.by_head ? (pair / 2 * s.N + i) * 2 + pair % 2 : place;
    code.push_back(static_cast<int32_t>(f));
    logs[row * s.F + f] = T(0.0f);
  }
  ChunkProblem<T> problem(s);
  problem.k().write(logs.data());
  problem.forward();
  problem.backward_query();
  return problem.straight_through(Tensor::from(code, {P, s.N}), D);
}

TEST(CudaStraightThrough, SegmentsPaddingAndSizes) {
  for (const bool causal : {false, true})
    for (const bool padded : {false, true})
      for (const int64_t segment : {1000, 70}) {
        ChunkSetting s{FeatureKind::logs};
        s.causal = causal;
        s.padded = padded;
        s.segment = segment;
        s.N = 150;
        s.F = 12;
        s.M = 9;
        s.hints = segment == 1000;
        s.by_head = causal;
        SCOPED_TRACE(describe(s));
        expect_real_parity([&](auto t) { return run<decltype(t)>(s, 7); }, {2e-5, 1e-12, 2e-2});
      }
  for (const int64_t D : {1, 66}) {
    ChunkSetting s{FeatureKind::logs};
    s.N = 70;
    s.F = 70;
    s.M = 3;
    s.stddev = 10;
    expect_real_parity([&](auto t) { return run<decltype(t)>(s, D); }, {1e-4, 1e-11, 2e-2});
  }
}

}  // namespace
}  // namespace linea::cuda_tests

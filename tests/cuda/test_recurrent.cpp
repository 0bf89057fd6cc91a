#include <bit>
#include <cmath>

#include "cuda/split_float.h"
#include "tests/cuda/chunk_problem.h"

namespace linea::cuda_tests {
namespace {

// Pending keys of a state of P pairs: on a GPU, whose state is written at every third step.
template <typename T>
struct PendingKeys {
  static constexpr int64_t kCapacity = 3;
  PendingKeys(int64_t P, int64_t F, int64_t M)
      : keys(unset<T>({P, kCapacity, F})),
        values(unset<T>({P, kCapacity, M})),
        count(Tensor::zeros({P}, DType::i32)),
        high(Tensor::zeros({P, F, M}, DType::bf16)),
        low(Tensor::zeros({P, F, M}, DType::bf16)) {}
  PendingUpdates<T> view() const {
    if (context().device.kind == DeviceKind::cpu) return {};
    PendingUpdates<T> all{keys.template data<T>(), values.template data<T>(), count.data<int32_t>(),
                          kCapacity};
    if (!halves()) return all;
    all.high = high.data<BFloat16>();
    all.low = low.data<BFloat16>();
    return all;
  }
  bool halves() const { return std::is_same_v<T, BFloat16> && high.size(2) % kWideRows == 0; }
  Tensor state() const {
    const std::vector<BFloat16> upper = high.to_vector<BFloat16>(),
                                lower = low.to_vector<BFloat16>();
    std::vector<float> whole;
    for (size_t i = 0; i < upper.size(); ++i)
      whole.push_back(cuda::SplitFloat(upper[i], lower[i]).whole());
    return Tensor::from(whole, high.shape());
  }
  Tensor keys, values, count, high, low;
};

// Steps one after the other, the state carried; outputs of each, then the state, when no key waits
// any more.
template <typename T>
std::vector<Tensor> steps(FeatureKind kind, KernelFeature feature, bool weights, bool decays,
                          int64_t F, int64_t M, double stddev, double lost) {
  const bool scaled = kind == FeatureKind::logs || weights || decays;
  const int64_t P = 5;
  StateAccumulator<T> running(P, F, M, scaled);
  const PendingKeys<T> pending(P, F, M);
  std::vector<Tensor> result;
  for (uint32_t step = 0; step < 2 * PendingKeys<T>::kCapacity; ++step) {
    const Tensor q = features<T>({P, F}, 10 * step, kind, feature, stddev, 0);
    const Tensor k = features<T>({P, F}, 10 * step + 1, kind, feature, stddev, lost);
    const Tensor v = input<T>({P, M}, 10 * step + 2);
    const Tensor weight = input<T>({P}, 10 * step + 3, stddev),
                 decay = negative<T>({P}, 10 * step + 4, stddev);
    ChunkShape shape{P, 1, F, M, 1};
    shape.kind = kind;
    shape.feature = feature;
    ChunkInput<T> in;
    in.q = head_rows<const T>(q.data<T>(), 1, F);
    in.k = head_rows<const T>(k.data<T>(), 1, F);
    in.v = head_rows<const T>(v.data<T>(), 1, M);
    if (weights) in.weight = {weight.data<T>(), 1};
    if (decays) in.decay = {decay.data<T>(), 1};
    const Tensor y({P, M}, q.dtype());
    table<T>().recurrent_step(context(), shape, in,
                              {running.view(), scaled ? PendingUpdates<T>{} : pending.view()},
                              y.template data<T>());
    result.push_back(y);
  }
  if (!scaled && pending.halves() && context().device.kind == DeviceKind::cuda)
    running.state = pending.state();
  for (const Tensor& x : running.sums()) result.push_back(x);
  return result;
}

TEST(CudaRecurrent, Values) {
  for (const KernelFeature feature :
       {KernelFeature::given, KernelFeature::elu, KernelFeature::relu})
    for (const int64_t F : {5, 32, 300})
      for (const int64_t M : {3, 32, 70})
        expect_parity([&](auto t) {
          return steps<decltype(t)>(FeatureKind::values, feature, false, false, F, M, 1.0, 0);
        });
}

// What is read as bf16 is added up as float: terms that a bf16 would lose next to their sum.
TEST(CudaRecurrent, SplitBf16StatesLoseNothing) {
  const On device(kCuda);
  using T = BFloat16;
  const int64_t F = 4, M = 8;
  constexpr double kTerm = 129.0 / 16384;  // eight digits, of which sums soon have more
  const auto ones = [](int64_t n) { return Tensor::full({1, n}, DType::bf16, 1.0); };
  const Tensor q = ones(F), k = Tensor::full({1, F}, DType::bf16, kTerm), v = ones(M),
               y({1, M}, DType::bf16);
  const StateAccumulator<T> running(1, F, M, false);
  const PendingKeys<T> pending(1, F, M);
  const ChunkShape shape{1, 1, F, M, 1};
  ChunkInput<T> in;
  in.q = head_rows<const T>(q.data<T>(), 1, F);
  in.k = head_rows<const T>(k.data<T>(), 1, F);
  in.v = head_rows<const T>(v.data<T>(), 1, M);
  const int64_t count = (a_share() ? 20 : 400) * PendingKeys<T>::kCapacity;
  for (int64_t step = 0; step < count; ++step)
    table<T>().recurrent_step(context(), shape, in, {running.view(), pending.view()}, y.data<T>());
  for (const double x : numbers(pending.state())) EXPECT_EQ(x, kTerm * static_cast<double>(count));
  for (const double x : numbers(y)) EXPECT_NEAR(x, 1, 0.01);
}

// States of a block whose columns are read one by one, of a warp and of a block in vectors; columns
// and features take several turns.
struct StepSize {
  int64_t features, values;
};
const StepSize kStepSizes[] = {{37, 33}, {8, 64}, {300, 72}, {300, 68}};

TEST(CudaRecurrent, WeightsAndDecays) {
  for (const auto [F, M] : kStepSizes)
    for (const bool weights : {false, true})
      for (const bool decays : {false, true})
        expect_parity([&, F = F, M = M](auto t) {
          return steps<decltype(t)>(FeatureKind::values, KernelFeature::given, weights, decays, F,
                                    M, 3.0, 0);
        });
}

TEST(CudaRecurrent, Logs) {
  for (const auto [F, M] : kStepSizes)
    for (const double stddev : {1.0, 60.0})
      for (const double lost : {0.0, 0.3, 1.0})
        for (const bool weights : {false, true})
          for (const bool decays : {false, true}) {
            const bool all = F == kStepSizes[0].features;
            if (!all && (lost != 0.3 || !weights || !decays)) continue;
            expect_parity(
                [&, F = F, M = M](auto t) {
                  return steps<decltype(t)>(FeatureKind::logs, KernelFeature::given, weights,
                                            decays, F, M, stddev, lost);
                },
                {2e-5, 1e-12, 1e-2});
          }
}

TEST(SplitFloat, RoundTripsToTheLastBit) {
  const RandomStream stream{3, Purpose::test, 0, 0};
  std::vector<float> numbers = {
      0.0f,     -0.0f,     1.0f,        1e-45f,     3.4028235e38f, -3.4028235e38f,
      INFINITY, -INFINITY, 1.00390625f, 1.01171875f};  // the last two are half way between two bf16
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint32_t word = random_word(stream, i);
    float x = 0;
    std::memcpy(&x, &word, sizeof x);
    if (std::isfinite(x)) numbers.push_back(x);
  }
  for (const float x : numbers) {
    const cuda::SplitFloat split(x);
    EXPECT_EQ(std::bit_cast<uint32_t>(split.whole()), std::bit_cast<uint32_t>(x)) << x;
    const float upper = split.high, nearest = BFloat16(x);
    EXPECT_TRUE(std::isinf(upper) || std::abs(x - upper) == std::abs(x - nearest)) << x;
  }
}

TEST(SplitFloat, LeavesNaNAsItIs) {
  for (const uint32_t word : {0x7FC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F800001u}) {
    const cuda::SplitFloat split(std::bit_cast<float>(word));
    EXPECT_TRUE(std::isnan(static_cast<float>(split.high))) << word;
    EXPECT_TRUE(std::isnan(split.whole())) << word;
  }
}

}  // namespace
}  // namespace linea::cuda_tests

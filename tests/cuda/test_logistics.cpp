#include "tensor/ops.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// Rows of means near [-1, 1] and of log scales around -2; row 1 has log scales below their bound
// and a mean far off, row 2 ones that make a level's width vanish.
template <typename T>
Tensor mixtures(int64_t R) {
  std::vector<T> values = input<T>({R, 3 * kLogistics}, 1).template to_vector<T>();
  for (int64_t i = 0; i < R * 3 * kLogistics; ++i) {
    const int64_t r = i / (3 * kLogistics), part = i / kLogistics % 3;
    const float shift = part != 2 ? 0.0f : r == 1 ? -8.0f : r == 2 ? 16.0f : -2.0f;
    values[i] = T(static_cast<float>(BFloat16(static_cast<float>(values[i]) + shift)));
    if (r == 1 && part == 1) values[i] = T(4.0f);
  }
  return Tensor::from(values, {R, 3 * kLogistics});
}

// Levels, the first and the last among them, and -1 where nothing is scored.
Tensor levels(int64_t R, int64_t V) {
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < R; ++r)
    targets.push_back(static_cast<int32_t>(r % 5 == 3   ? -1
                                           : r % 7 == 0 ? 0
                                           : r % 7 == 6 ? V - 1
                                                        : r * 37 % V));
  return Tensor::from(targets, {R});
}

TEST(CudaLogistics, LossGradientsAndScores) {
  for (const int64_t R : {0, 1, 300})
    for (const int64_t V : {2, 16, 300})
      expect_parity([&](auto t) {
        using T = decltype(t);
        using A = Accumulator<T>;
        const Tensor x = mixtures<T>(R), targets = levels(R, V), losses = unset<A>({R}),
                     dx = unset<T>(x.shape());
        const Tensor mean = unset<A>({1}), scored = unset<A>({1}), scores = unset<T>({R, V});
        const Tensor dmean = Tensor::full({1}, dtype_of(A{}), 1.5);
        const int32_t* aims = targets.data<int32_t>();
        table<T>().logistics_loss(context(), x.data<T>(), aims, losses.data<A>(), R, V);
        table<T>().mean_scored(context(), losses.data<A>(), aims, mean.data<A>(), scored.data<A>(),
                               R);
        table<T>().logistics_loss_backward(context(), x.data<T>(), aims, losses.data<A>(),
                                           scored.data<A>(), dmean.data<A>(), dx.data<T>(), R, V);
        table<T>().logistics_scores(context(), x.data<T>(), scores.data<T>(), R, V);
        return std::vector<Tensor>{losses, mean, dx, scores};
      });
}

// More levels than a block has threads; greedy too.
TEST(CudaLogistics, SamplesTheSameLevels) {
  SamplingParams greedy;
  greedy.greedy = true;
  for (const SamplingParams& params : {SamplingParams{}, SamplingParams{0.7, 5, 0.9}, greedy})
    for (const int64_t V : {2, 16, 300})
      expect_parity(
          [&](auto t) {
            const int64_t R = 60;
            const Tensor sampled = unset<int32_t>({R});
            ops::sample(OutputKind::logistics, mixtures<decltype(t)>(R), V, params,
                        {5, Purpose::sample, 0, 17}, {sampled});
            return std::vector<Tensor>{sampled};
          },
          {0, 0, 0});
}

}  // namespace
}  // namespace linea::cuda_tests

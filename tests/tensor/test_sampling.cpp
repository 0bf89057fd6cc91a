// Sampling with top-k and top-p: which tokens are left, against the sets written out slowly, and
// what is sampled.
#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "tests/tensor/op_values.h"

namespace linea::op_tests {
namespace {

// Takes the likeliest token, the first of equals, again and again: at most top_k, until their
// share of what top_k leaves reaches top_p. Then walks the rest in their order until the sum
// reaches u.
int32_t slow_draw(const Values& logits, const SamplingParams& params, double u) {
  Values weights;
  for (const double x : logits) weights.push_back(std::exp(x / params.temperature));
  const auto likeliest = [&](size_t count, double share) {
    std::vector<bool> taken(weights.size(), false);
    double all = 0, sum = 0;
    for (const int pass : {0, 1}) {  // the first finds the sum of all that top_k leaves
      std::fill(taken.begin(), taken.end(), false);
      sum = 0;
      for (size_t i = 0; i < count && (pass == 0 || i == 0 || sum < share * all); ++i) {
        size_t best = weights.size();
        for (size_t v = 0; v < weights.size(); ++v)
          if (!taken[v] && (best == weights.size() || weights[v] > weights[best])) best = v;
        taken[best] = true;
        sum += weights[best];
      }
      all = pass == 0 ? sum : all;
    }
    return taken;
  };
  const size_t count = params.top_k == 0
                           ? weights.size()
                           : std::min(weights.size(), static_cast<size_t>(params.top_k));
  const std::vector<bool> left = likeliest(count, params.top_p);
  double total = 0, sum = 0;
  for (size_t v = 0; v < weights.size(); ++v) total += left[v] ? weights[v] : 0;
  for (size_t v = 0; v < weights.size(); ++v) {
    sum += left[v] ? weights[v] : 0;
    if (left[v] && sum >= u * total * (1 - 1e-12)) return static_cast<int32_t>(v);
  }
  return -1;
}

TEST_P(Ops, TopKSamplesTheMostLikelyTokens) {
  constexpr int64_t kRows = 400, kTokens = 9;
  Values values = random({kRows, kTokens}, 4, DType::f64).to_doubles();
  for (double& x : values) x = std::round(4 * x) / 4;  // many equals
  const Tensor logits = make(values, {kRows, kTokens}, dtype());
  const RandomStream stream{5, Purpose::sample, 0, 3};
  for (const double temperature : {1.0, 0.5})
    for (const int64_t top_k : {0, 1, 3, 9, 100})
      for (const double top_p : {1.0, 0.9, 0.5, 0.2, 1e-9}) {
        const SamplingParams params{temperature, top_k, top_p};
        const std::vector<int32_t> sampled =
            sample_logits(logits, params, stream).to_vector<int32_t>();
        for (int64_t r = 0; r < kRows; ++r) {
          const Values row(values.begin() + r * kTokens, values.begin() + (r + 1) * kTokens);
          ASSERT_EQ(sampled[static_cast<size_t>(r)],
                    slow_draw(row, params, random_uniform(stream, static_cast<uint64_t>(r))))
              << "row " << r << ", temperature " << temperature << ", top_k " << top_k << ", top_p "
              << top_p;
        }
        if (top_k == 1 || top_p == 1e-9) {
          EXPECT_EQ(sampled, ops::argmax(logits).to_vector<int32_t>());
        }
      }
}

TEST_P(Ops, TopPBreaksTiesByIndex) {
  const Tensor logits = Tensor::zeros({1000, 8}, dtype());
  const RandomStream stream{1, Purpose::sample, 0, 0};
  const std::vector<int32_t> sampled =
      sample_logits(logits, {1.0, 0, 0.5}, stream).to_vector<int32_t>();
  EXPECT_EQ(*std::max_element(sampled.begin(), sampled.end()), 3);
  for (int32_t token = 0; token < 4; ++token)
    EXPECT_NEAR(static_cast<double>(std::count(sampled.begin(), sampled.end(), token)), 250,
                5 * 13.7)
        << token;
}

TEST(Sampling, RefusesInvalidNumbers) {
  const Tensor logits = Tensor::zeros({1, 4}, DType::f32);
  const auto refused = [&](const SamplingParams& params,
                           std::initializer_list<std::string> fragments) {
    expect_error(ErrorKind::usage, fragments, [&] { sample_logits(logits, params, {}); });
  };
  for (const double temperature : {0.0, -1.0, std::nan("")})
    refused({temperature}, {"`temperature`", "`greedy`"});
  refused({1.0, -1}, {"`top_k` is -1"});
  for (const double top_p : {0.0, -0.5, 1.5, std::nan("")})
    refused({1.0, 0, top_p}, {"`top_p` is"});
}

}  // namespace
}  // namespace linea::op_tests

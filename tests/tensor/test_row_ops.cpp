// Ops that take a row of numbers together, to normalize it, to score it or to choose from it,
// against their formulas in double.
#include <limits>

#include "tests/tensor/op_values.h"

namespace linea::op_tests {
namespace {

Values scaled(Values x, double factor) {
  for (double& number : x) number *= factor;
  return x;
}

TEST_P(Ops, LayerNorm) {
  const int64_t R = 133, C = 17;  // more rows than the 64 groups of the backward
  const Tensor x = random({R, C}, 1, dtype()), weight = random({C}, 2, dtype()),
               bias = random({C}, 3, dtype());
  const Tensor dy = random({R, C}, 4, dtype());
  const Values a = x.to_doubles(), g = weight.to_doubles(), b = bias.to_doubles(),
               d = dy.to_doubles();
  Values y, without, dx, dweight(static_cast<size_t>(C), 0.0), dbias = dweight;
  for (size_t r = 0; r < static_cast<size_t>(R); ++r) {
    const size_t row = r * static_cast<size_t>(C);
    double mean = 0, variance = 0, along = 0, along_n = 0;
    for (size_t c = 0; c < g.size(); ++c) mean += a[row + c] / static_cast<double>(C);
    for (size_t c = 0; c < g.size(); ++c)
      variance += (a[row + c] - mean) * (a[row + c] - mean) / static_cast<double>(C);
    const double s = 1 / std::sqrt(variance + 1e-5);
    for (size_t c = 0; c < g.size(); ++c) {
      const double n = (a[row + c] - mean) * s;
      y.push_back(g[c] * n + b[c]);
      without.push_back(g[c] * n);
      dweight[c] += d[row + c] * n;
      dbias[c] += d[row + c];
      along += g[c] * d[row + c] / static_cast<double>(C);
      along_n += g[c] * d[row + c] * n / static_cast<double>(C);
    }
    for (size_t c = 0; c < g.size(); ++c)
      dx.push_back(s * (g[c] * d[row + c] - along - (a[row + c] - mean) * s * along_n));
  }
  const ops::LayerNorm saved = ops::layer_norm(x, weight, bias);
  expect_near(saved.y, y, "layer_norm");
  expect_near(ops::layer_norm(x, weight, Tensor()).y, without, "layer_norm without bias");
  const ops::LayerNormGradient found = ops::layer_norm_backward(x, weight, true, saved, dy);
  expect_near(found.dx, dx, "dx");
  expect_near(ops::scale(found.dweight, 0.1), scaled(dweight, 0.1), "dweight");
  expect_near(ops::scale(found.dbias, 0.1), scaled(dbias, 0.1), "dbias");
  EXPECT_FALSE(ops::layer_norm_backward(x, weight, false, saved, dy).dbias.defined());
}

TEST_P(Ops, SoftmaxAndNormalize) {
  const Tensor x = random({9, 13}, 1, dtype()), dy = random({9, 13}, 2, dtype());
  const Values a = x.to_doubles(), d = dy.to_doubles();
  Values soft, dsoft, shares, dshares;
  for (size_t r = 0; r < 9; ++r) {
    double total = 0, sum = 0, along = 0, along_share = 0;
    for (size_t c = 0; c < 13; ++c) {
      total += std::exp(a[r * 13 + c]);
      sum += a[r * 13 + c];
    }
    for (size_t c = 0; c < 13; ++c) {
      soft.push_back(std::exp(a[r * 13 + c]) / total);
      shares.push_back(a[r * 13 + c] / sum);
      along += soft.back() * d[r * 13 + c];
      along_share += shares.back() * d[r * 13 + c];
    }
    for (size_t c = 0; c < 13; ++c) {
      dsoft.push_back(soft[r * 13 + c] * (d[r * 13 + c] - along));
      dshares.push_back((d[r * 13 + c] - along_share) / sum);
    }
  }
  const Tensor y = ops::softmax(x);
  expect_near(y, soft, "softmax");
  expect_near(ops::softmax_backward(y, dy), dsoft, "softmax_backward");
  const auto [z, sums] = ops::normalize(x);
  expect_near(ops::scale(z, 0.1), scaled(shares, 0.1), "normalize");
  const double largest = *std::max_element(dshares.begin(), dshares.end());
  expect_near(ops::scale(ops::normalize_backward(z, sums, dy), 1 / largest),
              scaled(dshares, 1 / largest), "normalize_backward");
}

TEST_P(Ops, SoftmaxAndNormalizeExtremes) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = make({1000, 1000, -inf, -inf, -inf, -inf, -1e30, 0, -inf}, {3, 3}, dtype());
  EXPECT_EQ(ops::softmax(x).to_doubles(), (Values{0.5, 0.5, 0, 0, 0, 0, 0, 1, 0}));
  const auto [y, sums] = ops::normalize(make({1, -1, 2, 6}, {2, 2}, dtype()));
  EXPECT_EQ(y.to_doubles(), (Values{0, 0, 0.25, 0.75}));
  EXPECT_EQ(ops::normalize_backward(y, sums, make({5, 7, 0, 0}, {2, 2}, dtype())).to_doubles(),
            (Values{0, 0, 0, 0}));
}

TEST_P(Ops, CrossEntropy) {
  const Tensor x = random({2, 3, 7}, 1, dtype());
  const std::vector<int32_t> targets = {6, -1, 0, 3, -5, 3};
  const Tensor tokens = Tensor::from(targets, {2, 3});
  const Values a = x.to_doubles();
  Values losses, dx;
  double mean = 0;
  for (size_t r = 0; r < 6; ++r) {
    double total = 0;
    for (size_t v = 0; v < 7; ++v) total += std::exp(a[r * 7 + v]);
    const bool scored = targets[r] >= 0;
    losses.push_back(scored ? std::log(total) - a[r * 7 + static_cast<size_t>(targets[r])] : 0.0);
    mean += losses.back() / 4;
    for (size_t v = 0; v < 7; ++v) {
      const double hit = static_cast<int32_t>(v) == targets[r] ? 1 : 0;
      dx.push_back(scored ? (std::exp(a[r * 7 + v]) / total - hit) * 3 / 4 : 0.0);
    }
  }
  const ops::ScoredLoss saved = ops::cross_entropy(x, tokens);
  expect_near(saved.losses, losses, "losses");
  EXPECT_NEAR(saved.mean.item(), mean, 1e-6);
  EXPECT_EQ(saved.scored.item(), 4);
  expect_near(ops::cross_entropy_backward(x, tokens, saved, make({3}, {1}, dtype())), dx, "dx");
  // large logits do not overflow, and nothing scored is a loss of 0 without gradient
  const Tensor large = make({1e4, 0, -1e4}, {1, 3}, dtype());
  EXPECT_EQ(ops::cross_entropy(large, Tensor::from<int32_t>({1}, {1})).mean.item(), 1e4);
  const Tensor none = Tensor::from<int32_t>({-1}, {1}), one = make({1}, {1}, dtype());
  const ops::ScoredLoss unscored = ops::cross_entropy(large, none);
  EXPECT_EQ(unscored.mean.item(), 0);
  EXPECT_EQ(ops::cross_entropy_backward(large, none, unscored, one).to_doubles(),
            (Values{0, 0, 0}));
}

TEST_P(Ops, ArgmaxTakesTheFirstLargest) {
  const Tensor x = make({1, 5, 5, -3, -1, -2, 0, 0, 0}, {3, 3}, dtype());
  EXPECT_EQ(ops::argmax(x).to_vector<int32_t>(), (std::vector<int32_t>{1, 1, 0}));
}

TEST_P(Ops, SampleFollowsTheDistribution) {
  const double inf = std::numeric_limits<double>::infinity();
  const Values logits = {0.3, -1.0, 1.2, -inf, 0.0};
  constexpr int64_t kRows = 60000;
  for (const double temperature : {1.0, 0.5}) {
    Values repeated, p;
    for (int64_t r = 0; r < kRows; ++r)
      repeated.insert(repeated.end(), logits.begin(), logits.end());
    double total = 0;
    for (const double x : logits) total += std::exp(x / temperature);
    for (const double x : logits) p.push_back(std::exp(x / temperature) / total);
    const Tensor x = make(repeated, {kRows, 5}, dtype());
    const std::vector<int32_t> sampled =
        sample_logits(x, {temperature}, {3, Purpose::sample, 0, 1}).to_vector<int32_t>();
    std::vector<int> hits(5, 0);
    for (const int32_t token : sampled) ++hits.at(static_cast<size_t>(token));
    for (size_t v = 0; v < 5; ++v)
      EXPECT_NEAR(hits[v], p[v] * kRows, 4.5 * std::sqrt(p[v] * kRows) + 1e-9) << v;
    EXPECT_EQ(sample_logits(x, {temperature}, {3, Purpose::sample, 0, 1}).to_vector<int32_t>(),
              sampled);
    EXPECT_NE(sample_logits(x, {temperature}, {3, Purpose::sample, 0, 2}).to_vector<int32_t>(),
              sampled);
  }
}

}  // namespace
}  // namespace linea::op_tests

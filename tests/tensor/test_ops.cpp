// Every op against its formula in double, at odd sizes, in f32 and f64.
#include "tensor/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace linea {
namespace {

using Values = std::vector<double>;

Tensor make(const Values& values, const Shape& shape, DType dtype) {
  if (dtype == DType::f64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

Tensor random(const Shape& shape, uint32_t lane, DType dtype) {
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)  // the same numbers in f32 and f64
    values[i] = static_cast<float>(random_normal({2, Purpose::test, lane, 0}, i));
  return make(values, shape, dtype);
}

// |found - expected| <= tolerance max(1, |expected|), element by element.
void expect_near(const Tensor& found, const Values& expected, const char* what) {
  const Values values = found.to_doubles();
  ASSERT_EQ(values.size(), expected.size()) << what;
  const double tolerance = found.dtype() == DType::f64 ? 1e-13 : 2e-6;
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " at " << i;
}

class Ops : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Ops, testing::Values(DType::f32, DType::f64),
                         [](const auto& param) { return name_of(param.param); });

TEST_P(Ops, Arithmetic) {
  const Tensor a = random({3, 7, 11}, 1, dtype()), b = random({3, 7, 11}, 2, dtype());
  const Values x = a.to_doubles(), y = b.to_doubles();
  Values sum, product, scaled;
  for (size_t i = 0; i < x.size(); ++i) {
    sum.push_back(x[i] + y[i]);
    product.push_back(x[i] * y[i]);
    scaled.push_back(-0.7 * x[i]);
  }
  expect_near(ops::add(a, b), sum, "add");
  expect_near(ops::multiply(a, b), product, "multiply");
  expect_near(ops::scale(a, -0.7), scaled, "scale");
  const Tensor into = b.clone();
  ops::accumulate(a, into);
  expect_near(into, sum, "accumulate");
  EXPECT_EQ(ops::add(random({0, 3}, 1, dtype()), random({0, 3}, 2, dtype())).numel(), 0);
}

TEST_P(Ops, Pointwise) {
  const Tensor x = random({5, 13}, 1, dtype()), dy = random({5, 13}, 2, dtype());
  const Values values = x.to_doubles(), slopes = dy.to_doubles();
  const auto check = [&](Pointwise f, const std::function<double(double)>& value,
                         const std::function<double(double)>& slope) {
    Values y, dx;
    for (size_t i = 0; i < values.size(); ++i) {
      y.push_back(value(values[i]));
      dx.push_back(slope(values[i]) * slopes[i]);
    }
    expect_near(ops::pointwise(f, x), y, "pointwise");
    expect_near(ops::pointwise_backward(f, x, dy), dx, "pointwise_backward");
  };
  const auto step = [](double a) { return a > 0 ? 1.0 : 0.0; };
  check(
      Pointwise::relu, [](double a) { return std::max(a, 0.0); }, step);
  check(
      Pointwise::feature_relu, [](double a) { return std::max(a, 0.0) + 1e-3; }, step);
  check(
      Pointwise::feature_elu, [](double a) { return a < 0 ? std::exp(a) : a + 1; },
      [](double a) { return a < 0 ? std::exp(a) : 1.0; });
  const double root = std::sqrt(2 / std::acos(-1.0));
  const auto inner = [=](double a) { return std::tanh(root * (a + 0.044715 * a * a * a)); };
  check(
      Pointwise::gelu, [=](double a) { return 0.5 * a * (1 + inner(a)); },
      [=](double a) {
        const double t = inner(a);
        return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * root * (1 + 3 * 0.044715 * a * a);
      });
}

TEST_P(Ops, DropoutKeepsByItsNumbers) {
  const Tensor x = random({1003}, 1, dtype());
  StepParams& step = *context().step;
  step = {};
  step.seed = 5;
  step.step = 9;
  const Values values = x.to_doubles(), y = ops::dropout(x, 0.25f, 2).to_doubles();
  int kept = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool keep = random_uniform({5, Purpose::dropout, 2, 9}, i) >= 0.25f;
    EXPECT_NEAR(y[i], keep ? values[i] / 0.75 : 0.0, 1e-6 * std::abs(values[i]));
    kept += keep ? 1 : 0;
  }
  EXPECT_NEAR(kept, 752, 70);
  EXPECT_NE(ops::dropout(x, 0.25f, 3).to_doubles(), y);
  step.step = 10;
  EXPECT_NE(ops::dropout(x, 0.25f, 2).to_doubles(), y);
  step = {};
}

TEST_P(Ops, Rows) {
  const Tensor x = random({4, 9, 7, 3}, 1, dtype()), row = random({7, 3}, 2, dtype());
  const Values values = x.to_doubles(), added = row.to_doubles();
  Values sum, total(21, 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    sum.push_back(values[i] + added[i % 21]);
    total[i % 21] += values[i];
  }
  expect_near(ops::add_rows(x, row), sum, "add_rows");
  const Tensor totals = ops::sum_rows(x, {7, 3});
  EXPECT_EQ(totals.shape(), (Shape{7, 3}));
  expect_near(totals, total, "sum_rows");
}

TEST_P(Ops, PermuteInEveryOrder) {
  const int64_t size[4] = {2, 3, 5, 4}, inner = 3;
  const Tensor x = random({2, 3, 5, 4, inner}, 1, dtype());
  const Values from = x.to_doubles();
  int axis[4] = {0, 1, 2, 3};
  do {
    PermuteShape shape{{2, 3, 5, 4}, {axis[0], axis[1], axis[2], axis[3]}, inner};
    Values expected;
    int64_t at[4];  // in the order of the result's axes
    for (at[0] = 0; at[0] < size[axis[0]]; ++at[0])
      for (at[1] = 0; at[1] < size[axis[1]]; ++at[1])
        for (at[2] = 0; at[2] < size[axis[2]]; ++at[2])
          for (at[3] = 0; at[3] < size[axis[3]]; ++at[3])
            for (int64_t i = 0; i < inner; ++i) {
              int64_t place[4];
              for (int a = 0; a < 4; ++a) place[axis[a]] = at[a];
              const int64_t flat = ((place[0] * 3 + place[1]) * 5 + place[2]) * 4 + place[3];
              expected.push_back(from[static_cast<size_t>(flat * inner + i)]);
            }
    const Shape result{size[axis[0]], size[axis[1]], size[axis[2]], size[axis[3]], inner};
    ASSERT_EQ(ops::permute(x, shape, result).to_doubles(), expected);
  } while (std::next_permutation(axis, axis + 4));
}

Values naive_matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, double alpha) {
  const Values x = a.to_doubles(), y = b.to_doubles();
  const int64_t rows = a.size(transpose_a ? -1 : -2), inner = a.size(transpose_a ? -2 : -1);
  const int64_t cols = b.size(transpose_b ? -2 : -1), batch = a.numel() / std::max<int64_t>(rows * inner, 1);
  const bool shared = b.shape().rank() == 2;
  Values result;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        double total = 0;
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t at_a = n * rows * inner + (transpose_a ? i * rows + r : r * inner + i);
          const int64_t at_b = (shared ? 0 : n * inner * cols) + (transpose_b ? c * inner + i : i * cols + c);
          total += x[static_cast<size_t>(at_a)] * y[static_cast<size_t>(at_b)];
        }
        result.push_back(alpha * total);
      }
  return result;
}

TEST_P(Ops, MatmulInEveryArrangement) {
  const int before = context().threads;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const std::vector<int64_t>& outer : {std::vector<int64_t>{}, {1}, {3}, {2, 3}}) {
          const auto shape = [&](int64_t rows, int64_t cols, bool transposed) {
            std::vector<int64_t> sizes = outer;
            sizes.push_back(transposed ? cols : rows);
            sizes.push_back(transposed ? rows : cols);
            return Shape(sizes);
          };
          const Tensor a = random(shape(5, 7, transpose_a), 1, dtype());
          const Tensor b = random(shape(7, 3, transpose_b), 2, dtype());
          const Tensor c = ops::matmul(a, b, transpose_a, transpose_b, 0.5);
          EXPECT_EQ(c.shape(), shape(5, 3, false));
          expect_near(c, naive_matmul(a, b, transpose_a, transpose_b, 0.5), "matmul");
          if (transpose_a || outer.empty()) continue;
          const Tensor shared = random(transpose_b ? Shape{3, 7} : Shape{7, 3}, 3, dtype());
          const Tensor d = ops::matmul(a, shared, false, transpose_b);
          EXPECT_EQ(d.shape(), shape(5, 3, false));
          expect_near(d, naive_matmul(a, shared, false, transpose_b, 1), "matmul, shared");
        }
      }
    }
    const Tensor large_a = random({130, 67}, 4, dtype()), large_b = random({67, 150}, 5, dtype());
    expect_near(ops::scale(ops::matmul(large_a, large_b), 0.1),
                naive_matmul(large_a, large_b, false, false, 0.1), "matmul, large");
  }
  set_threads(before);
}

TEST_P(Ops, MatmulOfNothing) {
  const Tensor none = random({3, 0}, 1, dtype()), no_rows = random({0, 3}, 2, dtype());
  expect_near(ops::matmul(none, no_rows), Values(9, 0.0), "an empty sum");
  EXPECT_EQ(ops::matmul(no_rows, random({3, 4}, 3, dtype())).shape(), (Shape{0, 4}));
}

TEST_P(Ops, LayerNorm) {
  const int64_t R = 133, C = 17;  // more rows than the 64 groups of the backward
  const Tensor x = random({R, C}, 1, dtype()), gain = random({C}, 2, dtype()), bias = random({C}, 3, dtype());
  const Tensor dy = random({R, C}, 4, dtype());
  const Values a = x.to_doubles(), g = gain.to_doubles(), b = bias.to_doubles(), d = dy.to_doubles();
  Values y, without, dx, dgain(static_cast<size_t>(C), 0.0), dbias = dgain;
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
      dgain[c] += d[row + c] * n;
      dbias[c] += d[row + c];
      along += g[c] * d[row + c] / static_cast<double>(C);
      along_n += g[c] * d[row + c] * n / static_cast<double>(C);
    }
    for (size_t c = 0; c < g.size(); ++c)
      dx.push_back(s * (g[c] * d[row + c] - along - (a[row + c] - mean) * s * along_n));
  }
  const ops::LayerNorm kept = ops::layer_norm(x, gain, bias);
  expect_near(kept.y, y, "layer_norm");
  expect_near(ops::layer_norm(x, gain, Tensor()).y, without, "layer_norm without bias");
  const ops::LayerNormGradient found = ops::layer_norm_backward(x, gain, true, kept, dy);
  expect_near(found.dx, dx, "dx");
  expect_near(
      ops::scale(found.dgain, 0.1),
      [&] {
        for (double& v : dgain) v *= 0.1;
        return dgain;
      }(),
      "dgain");
  expect_near(
      ops::scale(found.dbias, 0.1),
      [&] {
        for (double& v : dbias) v *= 0.1;
        return dbias;
      }(),
      "dbias");
  EXPECT_FALSE(ops::layer_norm_backward(x, gain, false, kept, dy).dbias.defined());
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
  expect_near(
      ops::scale(z, 0.1),
      [&] {
        for (double& v : shares) v *= 0.1;
        return shares;
      }(),
      "normalize");
  const double largest = *std::max_element(dshares.begin(), dshares.end());
  expect_near(
      ops::scale(ops::normalize_backward(z, sums, dy), 1 / largest),
      [&] {
        for (double& v : dshares) v /= largest;
        return dshares;
      }(),
      "normalize_backward");
}

TEST_P(Ops, SoftmaxAndNormalizeAtTheEnds) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = make({1000, 1000, -inf, -inf, -inf, -inf, -1e30, 0, -inf}, {3, 3}, dtype());
  EXPECT_EQ(ops::softmax(x).to_doubles(), (Values{0.5, 0.5, 0, 0, 0, 0, 0, 1, 0}));
  const auto [y, sums] = ops::normalize(make({1, -1, 2, 6}, {2, 2}, dtype()));
  EXPECT_EQ(y.to_doubles(), (Values{0, 0, 0.25, 0.75}));
  EXPECT_EQ(ops::normalize_backward(y, sums, make({5, 7, 0, 0}, {2, 2}, dtype())).to_doubles(),
            (Values{0, 0, 0, 0}));
}

TEST_P(Ops, MaskCausal) {
  const Tensor x = make({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}, dtype());
  EXPECT_EQ(ops::mask_causal(x, -9).to_doubles(), (Values{1, -9, 3, 4, 5, -9, 7, 8}));
  const Tensor bad = make({1, std::nan(""), 3, 4}, {2, 2}, dtype());  // selects, never multiplies
  EXPECT_EQ(ops::mask_causal(bad, 0).to_doubles(), (Values{1, 0, 3, 4}));
}

TEST_P(Ops, Embedding) {
  const Tensor table = random({5, 3}, 1, dtype()), dy = random({2, 3, 3}, 2, dtype());
  const std::vector<int32_t> ids = {4, 0, 4, 2, 4, 2};
  const Tensor symbols = Tensor::from(ids, {2, 3});
  const Values rows = table.to_doubles(), d = dy.to_doubles();
  Values y, dtable(15, 0.0);
  for (size_t i = 0; i < ids.size(); ++i)
    for (size_t c = 0; c < 3; ++c) {
      const size_t place = static_cast<size_t>(ids[i]) * 3 + c;
      y.push_back(rows[place]);
      dtable[place] += d[i * 3 + c];
    }
  EXPECT_EQ(ops::embedding(table, symbols).shape(), (Shape{2, 3, 3}));
  expect_near(ops::embedding(table, symbols), y, "embedding");
  expect_near(ops::embedding_backward(symbols, dy, 5), dtable, "embedding_backward");
}

TEST_P(Ops, CrossEntropy) {
  const Tensor x = random({2, 3, 7}, 1, dtype());
  const std::vector<int32_t> targets = {6, -1, 0, 3, -5, 3};
  const Tensor symbols = Tensor::from(targets, {2, 3});
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
  const ops::CrossEntropy kept = ops::cross_entropy(x, symbols);
  expect_near(kept.losses, losses, "losses");
  EXPECT_NEAR(kept.mean.item(), mean, 1e-6);
  EXPECT_EQ(kept.scored.item(), 4);
  expect_near(ops::cross_entropy_backward(x, symbols, kept, make({3}, {1}, dtype())), dx, "dx");
  // large logits do not overflow, and nothing scored is a loss of 0 without gradient
  const Tensor large = make({1e4, 0, -1e4}, {1, 3}, dtype());
  EXPECT_EQ(ops::cross_entropy(large, Tensor::full({1}, DType::i32, 1)).mean.item(), 1e4);
  const Tensor none = Tensor::full({1}, DType::i32, -1), one = make({1}, {1}, dtype());
  const ops::CrossEntropy unscored = ops::cross_entropy(large, none);
  EXPECT_EQ(unscored.mean.item(), 0);
  EXPECT_EQ(ops::cross_entropy_backward(large, none, unscored, one).to_doubles(), (Values{0, 0, 0}));
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
    for (int64_t r = 0; r < kRows; ++r) repeated.insert(repeated.end(), logits.begin(), logits.end());
    double total = 0;
    for (const double x : logits) total += std::exp(x / temperature);
    for (const double x : logits) p.push_back(std::exp(x / temperature) / total);
    const Tensor x = make(repeated, {kRows, 5}, dtype());
    const std::vector<int32_t> drawn =
        ops::sample(x, temperature, {3, Purpose::sample, 0, 1}).to_vector<int32_t>();
    std::vector<int> hits(5, 0);
    for (const int32_t symbol : drawn) ++hits.at(static_cast<size_t>(symbol));
    for (size_t v = 0; v < 5; ++v)
      EXPECT_NEAR(hits[v], p[v] * kRows, 4.5 * std::sqrt(p[v] * kRows) + 1e-9) << v;
    EXPECT_EQ(ops::sample(x, temperature, {3, Purpose::sample, 0, 1}).to_vector<int32_t>(), drawn);
    EXPECT_NE(ops::sample(x, temperature, {3, Purpose::sample, 0, 2}).to_vector<int32_t>(), drawn);
  }
}

TEST_P(Ops, CountNonfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ops::count_nonfinite(make({1, inf, -inf, std::nan(""), 0}, {5}, dtype())), 3);
  EXPECT_EQ(ops::count_nonfinite(random({100}, 1, dtype())), 0);
}

}  // namespace
}  // namespace linea

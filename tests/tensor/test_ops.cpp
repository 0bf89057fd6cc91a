// Ops that work on single numbers, or move, pick and count them, against their formulas in double,
// at odd sizes.
#include <functional>
#include <limits>

#include "tests/tensor/op_values.h"

namespace linea::op_tests {

INSTANTIATE_TEST_SUITE_P(Dtypes, Ops, testing::Values(DType::f32, DType::f64),
                         [](const auto& param) { return name_of(param.param); });

namespace {

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
  const Values values = x.to_doubles(), grads = dy.to_doubles();
  const auto check = [&](Pointwise f, const std::function<double(double)>& value,
                         const std::function<double(double)>& grad) {
    Values y, dx;
    for (size_t i = 0; i < values.size(); ++i) {
      y.push_back(value(values[i]));
      dx.push_back(grad(values[i]) * grads[i]);
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

// Also where some axes, or all, have one element.
void expect_permuted(const int64_t (&size)[4], DType dtype) {
  const int64_t inner = 3;
  const Tensor x = random({size[0], size[1], size[2], size[3], inner}, 1, dtype);
  const Values from = x.to_doubles();
  int axis[4] = {0, 1, 2, 3};
  do {
    PermuteShape shape{
        {size[0], size[1], size[2], size[3]}, {axis[0], axis[1], axis[2], axis[3]}, inner};
    Values expected;
    int64_t at[4];  // in the order of the result's axes
    for (at[0] = 0; at[0] < size[axis[0]]; ++at[0])
      for (at[1] = 0; at[1] < size[axis[1]]; ++at[1])
        for (at[2] = 0; at[2] < size[axis[2]]; ++at[2])
          for (at[3] = 0; at[3] < size[axis[3]]; ++at[3])
            for (int64_t i = 0; i < inner; ++i) {
              int64_t place[4];
              for (int a = 0; a < 4; ++a) place[axis[a]] = at[a];
              const int64_t flat =
                  ((place[0] * size[1] + place[1]) * size[2] + place[2]) * size[3] + place[3];
              expected.push_back(from[static_cast<size_t>(flat * inner + i)]);
            }
    const Shape result{size[axis[0]], size[axis[1]], size[axis[2]], size[axis[3]], inner};
    ASSERT_EQ(ops::permute(x, shape, result).to_doubles(), expected);
  } while (std::next_permutation(axis, axis + 4));
}

TEST_P(Ops, PermuteInEveryOrder) {
  expect_permuted({2, 3, 5, 4}, dtype());
  expect_permuted({2, 1, 5, 1}, dtype());
  expect_permuted({1, 1, 1, 4}, dtype());
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
  const Tensor tokens = Tensor::from(ids, {2, 3});
  const Values rows = table.to_doubles(), d = dy.to_doubles();
  Values y, dtable(15, 0.0);
  for (size_t i = 0; i < ids.size(); ++i)
    for (size_t c = 0; c < 3; ++c) {
      const size_t place = static_cast<size_t>(ids[i]) * 3 + c;
      y.push_back(rows[place]);
      dtable[place] += d[i * 3 + c];
    }
  EXPECT_EQ(ops::embedding(table, tokens).shape(), (Shape{2, 3, 3}));
  expect_near(ops::embedding(table, tokens), y, "embedding");
  expect_near(ops::embedding_backward(tokens, dy, 5), dtable, "embedding_backward");
  const Tensor places = Tensor::from<int32_t>({3, 0, 4, 4, 1, 2}, {6}), row = tokens.reshape({6});
  expect_near(ops::embed_position(table, row, table, places, dtype()),
              ops::add(ops::embedding(table, row), ops::embedding(table, places)).to_doubles(),
              "embed_position");
}

TEST_P(Ops, CountNonfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ops::count_nonfinite(make({1, inf, -inf, std::nan(""), 0}, {5}, dtype())), 3);
  EXPECT_EQ(ops::count_nonfinite(random({100}, 1, dtype())), 0);
}

}  // namespace
}  // namespace linea::op_tests

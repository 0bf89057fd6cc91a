// Every op's gradient against finite differences in double, with random cotangents, to 1e-7; and
// wrong gradients that the check must see.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "autograd/update_rule.h"
#include "nn/feature_map.h"
#include "tensor/ops.h"

namespace linea {
namespace {

using Vars = std::vector<Var>;
constexpr double kBound = 1e-7;

void expect_true(const char* what, const Function& f, const std::vector<Tensor>& inputs) {
  const GradcheckResult result = gradcheck(f, inputs);
  EXPECT_LE(result.error, kBound) << what << ", input " << result.worst_input;
}

Tensor draw(const Shape& shape, uint32_t stream_id = 1) { return random_tensor(shape, stream_id); }

TEST(Gradients, Arithmetic) {
  const std::vector<Tensor> two = {draw({3, 5}, 1), draw({3, 5}, 2)};
  expect_true(
      "add", [](const Vars& in) { return add(in[0], in[1]); }, two);
  expect_true(
      "multiply", [](const Vars& in) { return multiply(in[0], in[1]); }, two);
  expect_true("scale", [](const Vars& in) { return scale(in[0], -1.7); }, {draw({7})});
  expect_true("add_rows", [](const Vars& in) { return add_rows(in[0], in[1]); },
              {draw({4, 3, 5}), draw({5}, 2)});
  expect_true("add_rows, two axes", [](const Vars& in) { return add_rows(in[0], in[1]); },
              {draw({4, 3, 5}), draw({3, 5}, 2)});
}

TEST(Gradients, Pointwise) {
  for (const Pointwise f :
       {Pointwise::relu, Pointwise::gelu, Pointwise::feature_elu, Pointwise::feature_relu,
        Pointwise::sigmoid, Pointwise::exp, Pointwise::softplus, Pointwise::silu,
        Pointwise::log_sigmoid, Pointwise::log_one_minus_sigmoid})
    expect_true("pointwise", [f](const Vars& in) { return pointwise(f, in[0]); }, {draw({6, 11})});
  const Tensor between =
      ops::scale(ops::pointwise(Pointwise::sigmoid, draw({6, 11})), 0.99);  // in (0, 1)
  for (const Pointwise f : {Pointwise::log_gate, Pointwise::log_one_minus_gate})
    expect_true("logs", [f](const Vars& in) { return pointwise(f, in[0]); }, {between});
  const auto check_map = [&](const std::string& name, int64_t nu) {
    const std::shared_ptr<const FeatureMap> map = make_feature_map(name, nu);
    expect_true(name.c_str(),
                [map](const Vars& in) { return apply_features(map, in[0], Side::key).rows; },
                {draw({1, 1, 4, 3})});
  };
  check_map("square", 1);
  for (const int64_t nu : {1, 2, 5}) check_map("dpfp", nu);
}

TEST(Gradients, Columns) {
  for (const int64_t first : {0, 2, 4})
    expect_true("columns", [first](const Vars& in) { return columns(in[0], first, 1); },
                {draw({3, 2, 5})});
  expect_true("columns, several", [](const Vars& in) { return columns(in[0], 1, 3); },
              {draw({3, 2, 5})});
}

TEST(Gradients, LogDecays) {
  for (const Shape& shape : {Shape{2, 3, 7}, Shape{2, 3, 7, 4}}) {
    expect_true("log_decays", [](const Vars& in) { return log_decays(in[0], in[1], 1, false); },
                {draw(shape), draw({3}, 2)});
    expect_true("log_decays, negated",
                [](const Vars& in) { return log_decays(in[0], Var(), 0.0625, true); },
                {draw(shape)});
  }
}

TEST(Gradients, DropoutReusesItsRandomNumbers) {
  expect_true("dropout", [](const Vars& in) { return dropout(in[0], 0.4f, 3); }, {draw({37})});
  const Var x(draw({4}), true);
  EXPECT_EQ(dropout(x, 0, 3).value().address(), x.value().address());
}

TEST(Gradients, MatmulInEveryArrangement) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Function f = [=](const Vars& in) {
        return matmul(in[0], in[1], transpose_a, transpose_b);
      };
      const auto pair = [&](std::vector<int64_t> outer) {
        std::vector<int64_t> a = outer, b = outer;
        for (const int64_t size :
             transpose_a ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4})
          a.push_back(size);
        for (const int64_t size :
             transpose_b ? std::vector<int64_t>{5, 4} : std::vector<int64_t>{4, 5})
          b.push_back(size);
        return std::vector<Tensor>{draw(Shape(a), 1), draw(Shape(b), 2)};
      };
      expect_true("matmul", f, pair({}));
      expect_true("matmul, batch", f, pair({3}));
      expect_true("matmul, two outer axes", f, pair({2, 3}));
      if (transpose_a) continue;
      const Tensor shared = draw(transpose_b ? Shape{5, 4} : Shape{4, 5}, 2);
      expect_true("matmul, shared", f, {draw({2, 3, 4}), shared});
      expect_true("matmul, shared, two outer axes", f, {draw({2, 2, 3, 4}), shared});
    }
  }
}

// Only one of the two factors may need a gradient.
TEST(Gradients, MatmulOfAConstant) {
  const Var constant(draw({4, 5}, 9));
  expect_true("constant b", [&](const Vars& in) { return matmul(in[0], constant); },
              {draw({3, 4})});
  expect_true("constant a", [&](const Vars& in) { return matmul(constant, in[0]); },
              {draw({5, 3})});
}

TEST(Gradients, ShapesAndParts) {
  expect_true("reshape", [](const Vars& in) { return reshape(in[0], {6, 2}); }, {draw({3, 4})});
  expect_true("rows", [](const Vars& in) { return rows(in[0], 1, 2); }, {draw({4, 3})});
  expect_true("select", [](const Vars& in) { return select(in[0], 2); }, {draw({3, 2, 2})});
  expect_true("concatenate",
              [](const Vars& in) {
                return concatenate({in[0], in[1], in[0]});
              },
              {draw({2, 3}), draw({1, 3})});
  expect_true("split_heads", [](const Vars& in) { return split_heads(in[0], 3, 2); },
              {draw({2, 3, 12})});
  expect_true("split_heads, a part",
              [](const Vars& in) { return select(split_heads(in[0], 3, 2), 1); },
              {draw({2, 3, 12})});
  expect_true("merge_heads", [](const Vars& in) { return merge_heads(in[0]); },
              {draw({2, 3, 4, 5})});
  expect_true("overlapping rows",
              [](const Vars& in) { return multiply(rows(in[0], 0, 3), rows(in[0], 2, 3)); },
              {draw({5, 2})});
  expect_true("rows of rows", [](const Vars& in) { return rows(rows(in[0], 1, 3), 2, 1); },
              {draw({5, 2})});
  expect_true("q, k and v of one projection",
              [](const Vars& in) {
                const Var parts = split_heads(in[0], 3, 1);
                return matmul(matmul(select(parts, 0), select(parts, 1), false, true),
                              select(parts, 2));
              },
              {draw({1, 3, 6})});
}

TEST(Gradients, MergingUndoesSplitting) {
  const Tensor x = draw({2, 5, 12});
  const Var back = merge_heads(select(split_heads(Var(x), 1, 3), 0));
  EXPECT_EQ(back.value().to_doubles(), x.to_doubles());
  // y[p,b,h,n,:] = x[b,n,p,h,:]
  const std::vector<double> from = x.to_doubles(),
                            to = split_heads(Var(x), 2, 3).value().to_doubles();
  const size_t p = 1, b = 1, h = 2, n = 3, d = 1;
  EXPECT_EQ(to[(((p * 2 + b) * 3 + h) * 5 + n) * 2 + d],
            from[(b * 5 + n) * 12 + (p * 3 + h) * 2 + d]);
}

TEST(Gradients, Normalization) {
  expect_true("layer_norm", [](const Vars& in) { return layer_norm(in[0], in[1], in[2]); },
              {draw({6, 5}), draw({5}, 2), draw({5}, 3)});
  expect_true("layer_norm without bias",
              [](const Vars& in) { return layer_norm(in[0], in[1], Var()); },
              {draw({70, 5}), draw({5}, 2)});
  expect_true("softmax", [](const Vars& in) { return softmax(in[0]); }, {draw({5, 7})});
  for (const double length : {1.0, 0.25})
    expect_true("unit_rows", [length](const Vars& in) { return unit_rows(in[0], length); },
                {draw({5, 7})});
  const Tensor positive = ops::pointwise(Pointwise::feature_elu, draw({5, 7}));
  expect_true("normalize", [](const Vars& in) { return normalize(in[0]); }, {positive});
  expect_true("mask_causal", [](const Vars& in) { return mask_causal(in[0], -3); },
              {draw({2, 4, 4})});
  expect_true("masked softmax", [](const Vars& in) { return softmax(mask_causal(in[0], -1e300)); },
              {draw({2, 4, 4})});
}

TEST(Gradients, Tokens) {
  const Tensor ids = Tensor::from(std::vector<int32_t>{2, 0, 2, 2, 4, 0}, {2, 3});
  expect_true("embedding", [&](const Vars& in) { return embedding(in[0], ids); }, {draw({5, 3})});
  const Tensor targets = Tensor::from(std::vector<int32_t>{2, -1, 0, 4, 4, -1}, {2, 3});
  expect_true("cross_entropy", [&](const Vars& in) { return cross_entropy(in[0], targets); },
              {draw({2, 3, 5})});
  expect_true("tied embedding",
              [&](const Vars& in) {
                return cross_entropy(matmul(embedding(in[0], ids), in[0], false, true), targets);
              },
              {draw({5, 3})});
}

// Mixtures of logistics: the first, a middle and the last level, and one that is not scored.
TEST(Gradients, Logistics) {
  for (const int64_t levels : {2, 5, 256}) {
    const auto last = static_cast<int32_t>(levels - 1);
    const Tensor targets = Tensor::from(std::vector<int32_t>{0, last / 2, -1, last}, {2, 2});
    for (const double stddev : {0.5, 1.5})
      expect_true("logistics_loss",
                  [&](const Vars& in) { return logistics_loss(in[0], targets, levels); },
                  {random_tensor({2, 2, 3 * kLogistics}, 5, stddev)});
  }
}

TEST(Gradcheck, DetectsLogisticsOfOtherLevels) {
  const Tensor targets = Tensor::from(std::vector<int32_t>{0, 100, 255}, {3});
  const Function wrong = [&](const Vars& in) {
    const ops::ScoredLoss saved = ops::logistics_loss(in[0].value(), targets, 256);
    return Var::from_op("logistics_loss", saved.mean, {in[0]},
                        [&, x = in[0].value(), saved](const Tensor& dy) -> std::vector<Gradient> {
                          return {ops::logistics_loss_backward(x, targets, 257, saved, dy)};
                        });
  };
  EXPECT_GT(gradcheck(wrong, {draw({3, 3 * kLogistics})}).error, 1e-4);
}

TEST(Gradients, ALeafUsedRepeatedly) {
  expect_true("x + x", [](const Vars& in) { return add(in[0], in[0]); }, {draw({4})});
  expect_true("x x", [](const Vars& in) { return multiply(in[0], in[0]); }, {draw({4})});
  expect_true("x x^T", [](const Vars& in) { return matmul(in[0], in[0], false, true); },
              {draw({3, 4})});
  expect_true(
      "x + x + pointwise(Pointwise::gelu, x)",
      [](const Vars& in) { return add(add(in[0], in[0]), pointwise(Pointwise::gelu, in[0])); },
      {draw({4})});
}

// The check is worth what it catches.
TEST(Gradcheck, DetectsASoftmaxWithoutItsSum) {
  const Function wrong = [](const Vars& in) {
    const Tensor y = ops::softmax(in[0].value());
    return Var::from_op("softmax", y, {in[0]}, [y](const Tensor& dy) -> std::vector<Gradient> {
      return {ops::multiply(y, dy)};  // the term -y sum(dy y) is missing
    });
  };
  EXPECT_GT(gradcheck(wrong, {draw({3, 5})}).error, 0.1);
}

TEST(Gradcheck, DetectsATransposedProduct) {
  const Function wrong = [](const Vars& in) {
    const Tensor a = in[0].value(), b = in[1].value();
    return Var::from_op("matmul", ops::matmul(a, b), {in[0], in[1]},
                        [a, b](const Tensor& dy) -> std::vector<Gradient> {
                          return {ops::matmul(dy, b), ops::matmul(a, dy, true)};  // b, not b^T
                        });
  };
  const GradcheckResult result = gradcheck(wrong, {draw({3, 3}), draw({3, 3}, 2)});
  EXPECT_GT(result.error, 0.1);
  EXPECT_EQ(result.worst_input, 0);
}

TEST(Gradcheck, DetectsOnePartInAMillion) {
  const Function wrong = [](const Vars& in) {
    return Var::from_op(
        "scale", ops::scale(in[0].value(), 2), {in[0]},
        [](const Tensor& dy) -> std::vector<Gradient> { return {ops::scale(dy, 2 + 2e-6)}; });
  };
  EXPECT_GT(gradcheck(wrong, {draw({5})}).error, kBound);
}

TEST(Gradcheck, DetectsAMissingGradient) {
  const Function cut = [](const Vars& in) { return Var(ops::scale(in[0].value(), 2)); };
  EXPECT_THROW(gradcheck(cut, {draw({5})}), Error);
  const Function half = [](const Vars& in) {
    return add(in[0], Var(ops::scale(in[1].value(), 2)));
  };
  EXPECT_GT(gradcheck(half, {draw({5}), draw({5}, 2)}).error, 0.5);
}

TEST(Gradcheck, NanIsAnError) {
  const Function wrong = [](const Vars& in) {
    return Var::from_op(
        "nan", ops::scale(in[0].value(), 1), {in[0]},
        [](const Tensor& dy) -> std::vector<Gradient> { return {ops::scale(dy, std::nan(""))}; });
  };
  EXPECT_FALSE(gradcheck(wrong, {draw({5}), draw({5}, 2)}).error <= kBound);
}

TEST(RelativeError, MatchesItsDefinition) {
  const auto of = [](const std::vector<double>& x) {
    return Tensor::from(x, {static_cast<int64_t>(x.size())});
  };
  EXPECT_DOUBLE_EQ(relative_error(of({1, 2.5}), of({1, 2})), 0.25);
  EXPECT_DOUBLE_EQ(relative_error(of({0.5}), of({0})), 0.5);
  EXPECT_DOUBLE_EQ(relative_error(of({2e-9}), of({1e-9}), 1e-3), 1e-6);
  EXPECT_TRUE(std::isnan(relative_error(of({std::nan(""), 0}), of({1, 1}))));
  EXPECT_TRUE(std::isnan(relative_error(of({1, 0}), of({std::nan(""), 1}))));
  EXPECT_THROW(relative_error(of({1}), of({1, 2})), Error);
}

}  // namespace
}  // namespace linea

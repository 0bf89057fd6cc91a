// Queries in clusters: gradients, and sums that are known.
#include "autograd/prototypes.h"

#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/softmax_attention.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// Two heads of six rows in four clusters, of which the second is empty; one row is in none.
const Shape kRows{1, 2, 6, 3}, kOfClusters{1, 2, 4, 3};
Tensor some_clusters() {
  return Tensor::from(std::vector<int32_t>{0, 2, 3, -1, 2, 2, 3, 3, 0, 0, -1, 2}, {1, 2, 6});
}

TEST(Prototypes, GradientsAreThoseOfDifferences) {
  const Tensor clusters = some_clusters(), valid = Tensor::from(std::vector<int32_t>{5}, {1});
  const Tensor keys = Tensor::from(
      std::vector<int32_t>{0, 3, 1, 2, 4, -1, 2, -1, 0, 1, 1, 2, 3, 4, -1, -1}, {1, 2, 4, 2});
  const auto check = [](const Function& f, const std::vector<Shape>& shapes) {
    std::vector<Tensor> inputs;
    for (size_t n = 0; n < shapes.size(); ++n)
      inputs.push_back(random_tensor(shapes[n], static_cast<uint32_t>(n + 1)));
    EXPECT_LE(gradcheck(f, inputs).error, 1e-9);
  };
  check([&](const std::vector<Var>& x) { return cluster_means(x[0], clusters, 4); }, {kRows});
  check([&](const std::vector<Var>& x) { return rows_of_clusters(x[0], clusters); }, {kOfClusters});
  check(
      [&](const std::vector<Var>& x) {
        return softmax_attention({x[0], x[1], x[2], Var()}, {false, valid});
      },
      {kOfClusters, kRows, kRows.with(-1, 2)});
  check([&](const std::vector<Var>& x) { return rest_attention(x[0], x[1], x[2], valid, keys); },
        {kOfClusters, kRows, kRows.with(-1, 2)});
  check([&](const std::vector<Var>& x) { return add_to_rest(x[0], x[1], clusters); },
        {kOfClusters, kRows.with(-1, 2)});
}

// With values of 1 the rest is 1 - m.
TEST(Prototypes, WeightsSumToOne) {
  const Var p(random_tensor(kOfClusters, 1)), k(random_tensor(kRows, 2)),
      v(Tensor::full(kRows.with(-1, 1), DType::f64, 1.0));
  const Tensor keys = prototype_keys(p.value(), k.value(), {}, 2);
  const std::vector<double> y = rest_attention(p, k, v, {}, keys).value().to_doubles();
  for (size_t row = 0; row < 8; ++row) {
    EXPECT_NEAR(y[2 * row] + y[2 * row + 1], 1, 1e-14);
    EXPECT_GT(y[2 * row + 1], 2.0 / 6);  // the two of largest weight
  }
}

}  // namespace
}  // namespace linea

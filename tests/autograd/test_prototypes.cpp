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

// Sets T_c(i), keys [1,2,4,K].
KeyTilesOf reading(const Tensor& clusters, const Tensor& keys) {
  return [of = clusters.to_vector<int32_t>(), all = keys.to_vector<int32_t>(), K = keys.size(3)](
             int64_t, int64_t head) {
    KeyTiles::Part part;
    part.sees = [&](int64_t i, const int32_t* some, int64_t count) {
      uint64_t bits = 0;
      const int64_t c = of[static_cast<size_t>(head * 6 + i)];
      for (int64_t n = 0; n < count; ++n)
        for (int64_t at = (head * 4 + c) * K; c >= 0 && at < (head * 4 + c + 1) * K; ++at)
          bits |= uint64_t{all[static_cast<size_t>(at)] == some[n]} << n;
      return bits;
    };
    return std::make_shared<const KeyTiles>(6, 6, std::vector{part});
  };
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
  check(
      [&](const std::vector<Var>& x) {
        return cluster_attention({x[0], x[1], x[2], Var()}, x[3], clusters, keys,
                                 reading(clusters, keys), valid);
      },
      {kRows, kRows, kRows.with(-1, 2), kOfClusters});
}

// With values of 1 it is the sum of all weights; with those of the keys of T_c it is m_c, here of the two of largest
// weight.
TEST(Prototypes, WeightsSumToOne) {
  const Tensor clusters = some_clusters();
  const Var q(random_tensor(kRows, 3)), p(random_tensor(kOfClusters, 1)),
      k(random_tensor(kRows, 2));
  const Tensor keys = prototype_keys(p.value(), k.value(), {}, 2);
  const auto y = [&](const std::vector<double>& values) {
    const Var v(Tensor::from(values, kRows.with(-1, 1)));
    return cluster_attention({q, k, v, Var()}, p, clusters, keys, reading(clusters, keys), {})
        .value()
        .to_doubles();
  };
  const std::vector<int32_t> of = clusters.to_vector<int32_t>(), top = keys.to_vector<int32_t>();
  for (size_t row = 0; row < 12; ++row) {
    const size_t head = row / 6;
    if (of[row] < 0) continue;
    EXPECT_NEAR(y(std::vector<double>(12, 1.0))[row], 1, 1e-14);
    std::vector<double> in_top(12);
    for (const size_t n : {0, 1})
      in_top[head * 6 +
             static_cast<size_t>(top[(head * 4 + static_cast<size_t>(of[row])) * 2 + n])] = 1;
    EXPECT_GT(y(in_top)[row], 2.0 / 6);
  }
}

}  // namespace
}  // namespace linea

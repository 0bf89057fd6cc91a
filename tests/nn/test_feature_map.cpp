#include "nn/feature_map.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"

namespace linea {
namespace {

// phi of one row, as written in the papers, in double.
std::vector<double> naive(const std::string& name, int64_t nu, const std::vector<double>& x) {
  std::vector<double> phi;
  const size_t D = x.size();
  if (name == "square") {
    for (const double a : x)
      for (const double b : x) phi.push_back(a * b);
  } else if (name == "dpfp") {
    std::vector<double> r;
    for (const double a : x) r.push_back(std::max(a, 0.0));
    for (const double a : x) r.push_back(std::max(-a, 0.0));
    for (size_t b = 1; b <= static_cast<size_t>(nu); ++b)
      for (size_t a = 0; a < 2 * D; ++a) phi.push_back(r[a] * r[(a + b) % (2 * D)]);
  } else {
    for (const double a : x) {
      if (name == "elu") phi.push_back(a < 0 ? std::exp(a) : a + 1);
      if (name == "relu") phi.push_back(std::max(a, 0.0) + 1e-3);
      if (name == "exp") phi.push_back(std::exp(a));
      if (name == "silu") phi.push_back(a / (1 + std::exp(-a)));
      if (name == "identity") phi.push_back(a);
    }
  }
  return phi;
}

// All features of x [P,S,D] as values, from logs where a map gives those.
Tensor values_of(const FeatureMap& map, const Tensor& x, Side side = Side::key) {
  const Tensor rows = map.forward(x, side, {0, 1}).rows;
  if (map.kind() == FeatureKind::values) return rows;
  std::vector<double> values = rows.to_doubles();
  for (double& value : values) value = std::exp(value);
  return Tensor::from(values, rows.shape());
}

TEST(FeatureMap, MatchesItsFormula) {
  for (const std::string& name : feature_map_names()) {
    for (const int64_t nu : {1, 3}) {
      const std::unique_ptr<FeatureMap> map = make_feature_map(name, nu);
      const int64_t D = 5, F = map->features(D);
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Tensor x = random_tensor({2, 3, D}, 5, 2.0, 1e-3, dtype);
        for (const Side side : {Side::query, Side::key}) {
          const Tensor phi = values_of(*map, x, side);
          ASSERT_EQ(phi.shape(), (Shape{2, 3, F})) << name;
          const std::vector<double> values = x.to_doubles(), found = phi.to_doubles();
          for (size_t row = 0; row < 6; ++row) {
            const std::vector<double> expected =
                naive(name, nu,
                      {values.begin() + static_cast<int64_t>(row) * D,
                       values.begin() + static_cast<int64_t>(row + 1) * D});
            ASSERT_EQ(static_cast<int64_t>(expected.size()), F);
            for (size_t f = 0; f < expected.size(); ++f)
              EXPECT_NEAR(found[row * expected.size() + f], expected[f],
                          (dtype == DType::f32 ? 2e-7 : 1e-15) * (1e-3 + std::abs(expected[f])))
                  << name << " " << f;
          }
        }
      }
    }
  }
}

TEST(FeatureMap, PassesGradcheckInDouble) {
  for (const std::string& name : feature_map_names()) {
    for (const int64_t nu : {1, 2, 5}) {
      const std::shared_ptr<const FeatureMap> map = make_feature_map(name, nu);
      const GradcheckResult result = gradcheck(
          [&](const std::vector<Var>& in) { return apply_features(map, in[0], Side::key).rows; },
          {random_tensor({1, 1, 7, 3}, 6)});
      EXPECT_LE(result.error, 1e-7) << name << " nu " << nu;
    }
  }
}

// phi(q).phi(k) = (q.k)^2
TEST(FeatureMap, SquareIsTheSquareOfTheProduct) {
  const std::unique_ptr<FeatureMap> map = make_feature_map("square", 1);
  const std::vector<double> q = random_tensor({1, 6}, 7).to_doubles(),
                            k = random_tensor({1, 6}, 8).to_doubles();
  const std::vector<double> phi_q = values_of(*map, Tensor::from(q, {1, 1, 6})).to_doubles();
  const std::vector<double> phi_k = values_of(*map, Tensor::from(k, {1, 1, 6})).to_doubles();
  double product = 0, features = 0;
  for (size_t i = 0; i < q.size(); ++i) product += q[i] * k[i];
  for (size_t f = 0; f < phi_q.size(); ++f) features += phi_q[f] * phi_k[f];
  EXPECT_NEAR(features, product * product, 1e-12);
}

// The floats at which expm1(x) + 1 is 6% wrong (-16), exactly 0 (-18), and beyond.
TEST(FeatureMap, EluIsPreciseFarBelowZero) {
  std::vector<float> x;
  for (float a = -80; a < 4; a += 0.0037f) x.push_back(a);
  x.insert(x.end(), {-16.0f, -18.0f, -80.0f, -1e-30f, 0.0f, -0.0f});
  const Tensor phi = values_of(*make_feature_map("elu", 1),
                               Tensor::from(x, {1, static_cast<int64_t>(x.size()), 1}));
  const std::vector<float> found = phi.to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], expected = a < 0 ? std::exp(a) : a + 1;
    ASSERT_NEAR(found[i], expected, 1e-6 * expected) << a;
  }
}

TEST(FeatureMap, ErrorsListTheNames) {
  try {
    make_feature_map("softplus", 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("'softplus'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("elu, relu, exp, square, dpfp"), std::string::npos);
  }
  const Tensor x = Tensor::zeros({1, 2, 3}, DType::f32);
  EXPECT_THROW(values_of(*make_feature_map("dpfp", 0), x), Error);
  EXPECT_NO_THROW(values_of(*make_feature_map("dpfp", 5), x));
  EXPECT_THROW(values_of(*make_feature_map("dpfp", 6), x), Error);  // rolled all the way round
}

}  // namespace
}  // namespace linea

// The Fréchet distance against closed forms, and against a square root that is found by iteration.
#include "judge/frechet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

using Square = std::vector<double>;

Square times(const Square& a, const Square& b, size_t n) {
  Square c(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

// Gauss-Jordan without pivots, which suffices for what is near to positive definite.
Square inverse(Square a, size_t n) {
  Square b(n * n);
  for (size_t i = 0; i < n; ++i) b[i * n + i] = 1;
  for (size_t i = 0; i < n; ++i) {
    const double pivot = a[i * n + i];
    for (size_t j = 0; j < n; ++j) a[i * n + j] /= pivot, b[i * n + j] /= pivot;
    for (size_t r = 0; r < n; ++r) {
      const double factor = r == i ? 0 : a[r * n + i];
      for (size_t j = 0; j < n; ++j)
        a[r * n + j] -= factor * a[i * n + j], b[r * n + j] -= factor * b[i * n + j];
    }
  }
  return b;
}

// (C1 C2)^1/2, which is not symmetric, by Denman & Beavers 1976: Y <- (Y + Z^-1) / 2,
// Z <- (Z + Y^-1) / 2 from Y = C1 C2, Z = 1.
double slow_distance(const Moments& a, const Moments& b) {
  const auto n = static_cast<size_t>(a.size);
  Square y = times(a.covariance, b.covariance, n), z(n * n);
  for (size_t i = 0; i < n; ++i) z[i * n + i] = 1;
  for (int round = 0; round < 60; ++round) {
    const Square y_inverse = inverse(y, n), z_inverse = inverse(z, n);
    for (size_t i = 0; i < n * n; ++i)
      y[i] = (y[i] + z_inverse[i]) / 2, z[i] = (z[i] + y_inverse[i]) / 2;
  }
  double distance = 0;
  for (size_t i = 0; i < n; ++i) {
    const double shift = a.mean[i] - b.mean[i];
    distance +=
        shift * shift + a.covariance[i * n + i] + b.covariance[i * n + i] - 2 * y[i * n + i];
  }
  return distance;
}

// Rows of normal numbers whose features are mixed, so that their covariance is no diagonal.
std::vector<float> mixed_features(size_t count, size_t n, uint32_t stream_id, double shift) {
  std::vector<float> features(count * n);
  for (size_t i = 0; i < features.size(); ++i)
    features[i] = static_cast<float>(random_normal({5, Purpose::test, stream_id, 0}, i));
  for (size_t r = 0; r < count; ++r)
    for (size_t i = 1; i < n; ++i)
      features[r * n + i] += 0.7f * static_cast<float>(stream_id) * features[r * n + i - 1] +
                             static_cast<float>(shift);
  return features;
}

TEST(Frechet, AgreesWithAnIterativeSquareRoot) {
  for (const size_t n : {1, 2, 5, 12}) {
    const Moments a = moments(mixed_features(60, n, 1, 0), static_cast<int64_t>(n)),
                  b = moments(mixed_features(50, n, 2, 0.5), static_cast<int64_t>(n));
    const double expected = slow_distance(a, b);
    EXPECT_GT(expected, 0.001);
    EXPECT_NEAR(frechet_distance(a, b), expected, 1e-9 * (1 + expected)) << n;
    EXPECT_NEAR(frechet_distance(b, a), expected, 1e-9 * (1 + expected)) << n;
    EXPECT_NEAR(frechet_distance(a, a), 0, 1e-9) << n;
  }
}

// 1-D: (m1 - m2)^2 + (s1 - s2)^2, with variances of count - 1.
TEST(Frechet, HasTheClosedFormOfOneFeature) {
  const Moments a = moments({1, 2, 3}, 1), b = moments({10, 14}, 1);
  EXPECT_DOUBLE_EQ(a.mean[0], 2);
  EXPECT_DOUBLE_EQ(a.covariance[0], 1);
  EXPECT_DOUBLE_EQ(b.covariance[0], 8);
  const double deviation = 1 - std::sqrt(8.0);
  EXPECT_NEAR(frechet_distance(a, b), 100 + deviation * deviation, 1e-12);
}

// mean 3/4 1 + 1/4 3;  covariance (3/4 1/4 + 1/4 9/4) / (1 - 9/16 - 1/16)
TEST(Frechet, WeighsItsVectors) {
  const Moments weighted = moments({1, 3}, 1, {0.75, 0.25});
  EXPECT_DOUBLE_EQ(weighted.mean[0], 1.5);
  EXPECT_DOUBLE_EQ(weighted.covariance[0], 2);
  const std::vector<float> features = mixed_features(10, 3, 1, 0);
  const Moments equal = moments(features, 3), tenths = moments(features, 3, std::vector(10, 0.1));
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(equal.covariance[i], tenths.covariance[i], 1e-12) << i;
}

// Fewer vectors than features: the covariances are singular.
TEST(Frechet, TakesSingularCovariances) {
  std::vector<float> features = mixed_features(3, 8, 1, 0);
  const Moments a = moments(features, 8);
  for (float& feature : features) feature += 2;
  EXPECT_NEAR(frechet_distance(a, moments(features, 8)), 8 * 4, 1e-4);  // floats
  EXPECT_NEAR(
      frechet_distance(a, moments(std::vector<float>(16), 8)),
      [&] {
        double sum = 0;
        for (size_t i = 0; i < 8; ++i) sum += a.mean[i] * a.mean[i] + a.covariance[9 * i];
        return sum;
      }(),
      1e-9);
  expect_error(ErrorKind::usage, {"1 vectors", "2"}, [] { moments({1, 2}, 2); });
}

}  // namespace
}  // namespace linea

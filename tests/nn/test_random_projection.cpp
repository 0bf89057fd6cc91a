// The random directions: right angles, lengths, and the distributions that they are drawn from.
#include "nn/random_projection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/expect_error.h"

namespace linea {
namespace {

constexpr RandomStream kStream{7, Purpose::features, 2, 5};
constexpr Projection kAll[] = {Projection::iid, Projection::orthogonal, Projection::stratified,
                               Projection::fixed_norm};
constexpr Projection kOrthogonal[] = {Projection::orthogonal, Projection::stratified,
                                      Projection::fixed_norm};

double product(const std::vector<double>& omega, int64_t D, int64_t a, int64_t b) {
  return std::inner_product(omega.begin() + a * D, omega.begin() + (a + 1) * D,
                            omega.begin() + b * D, 0.0);
}

std::vector<double> lengths_of(const std::vector<double>& omega, int64_t D) {
  std::vector<double> lengths;
  for (int64_t r = 0; r < static_cast<int64_t>(omega.size()) / D; ++r)
    lengths.push_back(std::sqrt(product(omega, D, r, r)));
  return lengths;
}

struct Moments {
  double mean = 0, variance = 0, fourth = 0;  // about 0
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (const double x : values) {
    m.mean += x / n;
    m.variance += x * x / n;
    m.fourth += x * x * x * x / n;
  }
  return m;
}

TEST(RandomProjection, Names) {
  EXPECT_EQ(parse_projection("iid"), Projection::iid);
  EXPECT_EQ(parse_projection("orthogonal"), Projection::orthogonal);
  EXPECT_EQ(parse_projection("stratified"), Projection::stratified);
  EXPECT_EQ(parse_projection("fixed-norm"), Projection::fixed_norm);
  expect_error(ErrorKind::usage, {"'sparse'", "iid, orthogonal, stratified, fixed-norm"},
               [] { parse_projection("sparse"); });
  expect_error(ErrorKind::usage, {"0", "16"},
               [] { draw_projection(Projection::iid, 0, 16, kStream); });
}

TEST(RandomProjection, RowsOfABlockAreOrthogonal) {
  for (const Projection projection : kOrthogonal)
    for (const auto& [R, D] : {std::pair<int64_t, int64_t>{1, 1},
                               {5, 1},
                               {1, 16},
                               {16, 16},
                               {37, 16},
                               {200, 64},
                               {300, 256}}) {
      const std::vector<double> omega = draw_projection(projection, R, D, kStream);
      ASSERT_EQ(omega.size(), static_cast<size_t>(R * D));
      const std::vector<double> lengths = lengths_of(omega, D);
      for (int64_t a = 0; a < R; ++a)
        for (int64_t b = a / D * D; b < a; ++b)
          ASSERT_LT(std::fabs(product(omega, D, a, b)) /
                        (lengths[static_cast<size_t>(a)] * lengths[static_cast<size_t>(b)]),
                    1e-12)
              << R << " " << D << " " << a << " " << b;
    }
}

TEST(RandomProjection, Lengths) {
  for (const auto& [R, D] : {std::pair<int64_t, int64_t>{1, 16}, {37, 16}, {100, 3}}) {
    for (const double length :
         lengths_of(draw_projection(Projection::fixed_norm, R, D, kStream), D))
      EXPECT_NEAR(length, std::sqrt(static_cast<double>(D)), 1e-12);
    std::vector<double> lengths =
        lengths_of(draw_projection(Projection::stratified, R, D, kStream), D);
    EXPECT_EQ(std::is_sorted(lengths.begin(), lengths.end()), R == 1);
    std::sort(lengths.begin(), lengths.end());
    for (size_t i = 0; i < lengths.size(); ++i)
      EXPECT_NEAR(lengths[i],
                  length_quantile(D, static_cast<double>(i + 1) / static_cast<double>(R + 1)),
                  1e-12);
  }
}

// By the values of chi squared in tables: Abramowitz & Stegun 1964, 26.8, and where there is a
// closed form.
TEST(RandomProjection, QuantilesOfLengths) {
  const auto chi_square = [](int64_t D, double p) { return std::pow(length_quantile(D, p), 2); };
  EXPECT_NEAR(chi_square(1, 0.95), 3.841458820694124, 1e-9);
  EXPECT_NEAR(chi_square(1, 0.5), 0.454936423119572, 1e-10);
  EXPECT_NEAR(chi_square(10, 0.95), 18.307038053275146, 1e-8);
  for (const double p : {1e-6, 0.001, 0.3, 0.5, 0.9, 0.999, 1 - 1e-6})
    EXPECT_NEAR(length_quantile(2, p), std::sqrt(-2 * std::log1p(-p)), 1e-10) << p;
  // D = 2 n: 1 - P = exp(-x) sum_{i<n} x^i / i!, x = r^2 / 2, the probability of fewer than n
  // events. D = 1: P = erf(r / sqrt 2).
  for (const double p : {1e-6, 1.0 / 1025, 0.1, 0.5, 0.9, 1024.0 / 1025, 1 - 1e-6}) {
    EXPECT_NEAR(std::erf(length_quantile(1, p) / std::sqrt(2.0)), p, 1e-14) << p;
    for (const int64_t D : {4, 16, 64, 256, 1024}) {
      const double r = length_quantile(D, p), x = r * r / 2;
      long double above = 0, grad = 0;
      for (int64_t i = 0; i < D / 2; ++i) {
        grad = std::exp(static_cast<long double>(i) * std::log(static_cast<long double>(x)) - x -
                        std::lgamma(i + 1.0L));
        above += grad;  // ends as the density of x
      }
      const double error_in_r = static_cast<double>((1 - above - p) / (grad * r));
      EXPECT_LT(std::fabs(error_in_r), 1e-10) << D << " " << p;
    }
  }
  for (int64_t D = 1; D <= 1024; D += D < 40 ? 1 : 123) {  // odd D too: rising in p and in D
    double before = 0;
    for (const double p : {0.001, 0.25, 0.5, 0.75, 0.999}) {
      const double r = length_quantile(D, p);
      EXPECT_GT(r, before);
      EXPECT_GT(r, D > 1 ? length_quantile(D - 1, p) : 0);
      before = r;
    }
  }
  expect_error(ErrorKind::usage, {"probability", "1"}, [] { length_quantile(4, 1.0); });
}

// All entries of iid and orthogonal are N(0, 1), and those of fixed lengths have mean 0 and
// variance 1 too.
TEST(RandomProjection, EntriesHaveTheirMoments) {
  constexpr int64_t kProjectionRows = 4096, kKeySize = 16;
  const double n = static_cast<double>(kProjectionRows * kKeySize);
  for (const Projection projection : kAll) {
    const Moments m = moments(draw_projection(projection, kProjectionRows, kKeySize, kStream));
    EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2 / n));
    // E x^4 on the sphere of radius sqrt(D) is 3 D / (D + 2).
    const double fourth =
        projection == Projection::fixed_norm ? 3.0 * kKeySize / (kKeySize + 2) : 3;
    EXPECT_NEAR(m.fourth, fourth, 6 * std::sqrt(96 / n));
  }
  // Each axis alone, over many small draws: signs and places are as likely as they are for a
  // uniform rotation.
  constexpr int64_t kSmall = 3, kDraws = 20000;
  for (const Projection projection : kAll) {
    std::vector<std::vector<double>> values_of(kSmall * kSmall);
    for (uint64_t step = 0; step < kDraws; ++step) {
      RandomStream stream = kStream;
      stream.step = step;
      const std::vector<double> drawn = draw_projection(projection, kSmall, kSmall, stream);
      for (size_t entry = 0; entry < drawn.size(); ++entry)
        values_of[entry].push_back(drawn[entry]);
    }
    for (size_t entry = 0; entry < values_of.size(); ++entry) {
      const Moments m = moments(values_of[entry]);
      EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(static_cast<double>(kDraws))) << entry;
      // The strata of three rows hold less than the whole variance.
      double variance = 1;
      if (projection == Projection::stratified) {
        variance = 0;
        for (const double p : {0.25, 0.5, 0.75})
          variance += std::pow(length_quantile(kSmall, p), 2) / 9;
      }
      EXPECT_NEAR(m.variance, variance, 5 * std::sqrt(2.0 / kDraws)) << entry;
    }
  }
}

// Kolmogorov-Smirnov, 1.95 / sqrt(n) being the bound of one in a thousand.
TEST(RandomProjection, LengthsFollowTheirDistribution) {
  constexpr int64_t kProjectionRows = 1024;
  for (const Projection projection : {Projection::iid, Projection::orthogonal})
    for (const int64_t D : {1, 5, 64}) {
      std::vector<double> lengths =
          lengths_of(draw_projection(projection, kProjectionRows, D, kStream), D);
      std::sort(lengths.begin(), lengths.end());
      for (const int64_t percent : {5, 20, 40, 50, 60, 80, 95}) {
        const double p = static_cast<double>(percent) / 100, r = length_quantile(D, p);
        const auto below = std::lower_bound(lengths.begin(), lengths.end(), r) - lengths.begin();
        EXPECT_NEAR(static_cast<double>(below) / kProjectionRows, p,
                    1.95 / std::sqrt(kProjectionRows))
            << D << " " << percent;
      }
    }
}

TEST(RandomProjection, IsAFunctionOfTheStream) {
  for (const Projection projection : kAll) {
    const std::vector<double> omega = draw_projection(projection, 24, 16, kStream);
    EXPECT_EQ(draw_projection(projection, 24, 16, kStream), omega);
    RandomStream other = kStream;
    other.step += 1;
    EXPECT_NE(draw_projection(projection, 24, 16, other), omega);
    other = kStream;
    other.stream_id += 1;
    EXPECT_NE(draw_projection(projection, 24, 16, other), omega);
    if (projection == Projection::stratified) continue;
    const std::vector<double> first = draw_projection(projection, 21, 16, kStream);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), omega.begin()));
  }
}

}  // namespace
}  // namespace linea

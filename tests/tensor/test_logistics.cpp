// Mixtures of logistic distributions on levels, against their definition in long double:
// differences of the logistic function, the edge bins open, the logarithm of the sum taken last.
#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "tests/tensor/op_values.h"

namespace linea::op_tests {
namespace {

using Wide = long double;

Wide sigma(Wide x) { return 1 / (1 + std::exp(-x)); }

struct Gradients {
  Wide logit[kLogistics], mean[kLogistics], log_scale[kLogistics];
};

struct Definition {
  Wide share[kLogistics], mean[kLogistics], scale[kLogistics], last;
  bool bound[kLogistics];

  Definition(const double* row, int64_t levels) : last(static_cast<Wide>(levels - 1)) {
    Wide total = 0;
    for (int64_t k = 0; k < kLogistics; ++k) total += std::exp(static_cast<Wide>(row[k]));
    for (int64_t k = 0; k < kLogistics; ++k) {
      share[k] = std::exp(static_cast<Wide>(row[k])) / total;
      mean[k] = row[kLogistics + k];
      bound[k] = row[2 * kLogistics + k] < -7;
      scale[k] = std::exp(std::max<Wide>(row[2 * kLogistics + k], -7));
    }
  }

  Wide lower(int64_t k, int64_t s) const {
    return ((2 * static_cast<Wide>(s) - 1) / last - 1 - mean[k]) / scale[k];
  }
  Wide upper(int64_t k, int64_t s) const {
    return ((2 * static_cast<Wide>(s) + 1) / last - 1 - mean[k]) / scale[k];
  }

  // sigma(b) - sigma(a), counted from the end at which both are small
  Wide mass(int64_t k, int64_t s) const {
    if (s == 0) return sigma(upper(k, s));
    if (static_cast<Wide>(s) == last) return sigma(-lower(k, s));
    const Wide a = lower(k, s), b = upper(k, s);
    return a > 0 ? sigma(-a) - sigma(-b) : sigma(b) - sigma(a);
  }
  Wide probability(int64_t s) const {
    Wide sum = 0;
    for (int64_t k = 0; k < kLogistics; ++k) sum += share[k] * mass(k, s);
    return sum;
  }
  // of -log P(s); sigma' = sigma (1 - sigma), and that of an open end is 0
  Gradients grads(int64_t s) const {
    Gradients result{};
    const Wide whole = probability(s);
    for (int64_t k = 0; k < kLogistics; ++k) {
      const Wide a = lower(k, s), b = upper(k, s), part = share[k] / whole;
      const Wide below = s == 0 ? 0 : sigma(a) * sigma(-a);
      const Wide above = static_cast<Wide>(s) == last ? 0 : sigma(b) * sigma(-b);
      result.logit[k] = share[k] - part * mass(k, s);
      result.mean[k] = part * (above - below) / scale[k];
      result.log_scale[k] = bound[k] ? 0 : part * (b * above - a * below);
    }
    return result;
  }
};

// Rows of mixtures of the widths `log_scale`, their means around `mean`.
Tensor mixtures(int64_t rows, double mean, double log_scale, DType dtype) {
  Values values = random({rows, 3 * kLogistics}, 3, DType::f64).to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t part = i % (3 * kLogistics) / kLogistics;
    if (part == 1) values[i] = mean + 0.5 * values[i];
    if (part == 2) values[i] = log_scale + 0.3 * values[i];
  }
  return make(values, {rows, 3 * kLogistics}, dtype);
}

constexpr int64_t kLevels[] = {2, 3, 4, 16, 256};

TEST_P(Ops, LogisticsMatchTheirDefinition) {
  for (const int64_t levels : kLevels)
    for (const double mean : {0.0, -1.5, 8.0})
      for (const double log_scale : {-8.0, -4.0, -1.5, 0.0, 6.0}) {
        const int64_t rows = 6;
        const Tensor x = mixtures(rows, mean, log_scale, dtype());
        const Values row = x.to_doubles(), scores = ops::logistics_scores(x, levels).to_doubles();
        for (int64_t r = 0; r < rows; ++r) {
          const Definition definition(row.data() + r * 3 * kLogistics, levels);
          double total = 0;
          for (int64_t s = 0; s < levels; ++s) {
            const double found = scores[static_cast<size_t>(r * levels + s)];
            const double expected = static_cast<double>(std::log(definition.probability(s)));
            // in float a place is known to 1e-7, and the narrowest scale is 1 / 1100
            const double tolerance = dtype() == DType::f64 ? 1e-10 : log_scale < -4 ? 4e-4 : 2e-5;
            ASSERT_NEAR(found, expected, tolerance * std::max(1.0, std::abs(expected)))
                << levels << " levels, mean " << mean << ", log scale " << log_scale << ", level "
                << s;
            total += std::exp(found);
          }
          EXPECT_NEAR(total, 1, dtype() == DType::f64 ? 1e-13 : 2e-5)
              << levels << ' ' << mean << ' ' << log_scale;
        }
      }
}

TEST_P(Ops, LogisticLossesMatchTheirScores) {
  const int64_t levels = 16;
  const std::vector<int32_t> targets = {0, 15, 7, -1, 3, -1};
  const Tensor x = mixtures(6, 0, -2, dtype()), tokens = Tensor::from(targets, {6});
  const Values scores = ops::logistics_scores(x, levels).to_doubles();
  const ops::ScoredLoss saved = ops::logistics_loss(x, tokens, levels);
  Values losses;
  double mean = 0;
  for (size_t r = 0; r < 6; ++r) {
    losses.push_back(targets[r] < 0 ? 0 : -scores[r * 16 + static_cast<size_t>(targets[r])]);
    mean += losses.back() / 4;
  }
  expect_near(saved.losses, losses, "losses");
  EXPECT_NEAR(saved.mean.item(), mean, 1e-6);
  EXPECT_EQ(saved.scored.item(), 4);
}

// The backward of one row at a time, for means inside, at the edge of and far outside the levels.
TEST_P(Ops, LogisticGradientsMatchTheirDefinition) {
  const Tensor one = make({1}, {1}, dtype());
  for (const int64_t levels : kLevels)
    for (const double mean : {0.0, -1.5, 8.0})
      for (const double log_scale : {-8.0, -4.0, -1.5, 0.0, 6.0})
        for (const int64_t s : {int64_t{0}, levels / 2, levels - 1}) {
          const Tensor x = mixtures(1, mean, log_scale, dtype());
          const Values row = x.to_doubles();
          const Tensor target = Tensor::from<int32_t>({static_cast<int32_t>(s)}, {1});
          const ops::ScoredLoss saved = ops::logistics_loss(x, target, levels);
          const Values found =
              ops::logistics_loss_backward(x, target, levels, saved, one).to_doubles();
          const Gradients expected = Definition(row.data(), levels).grads(s);
          const Wide* parts[] = {expected.logit, expected.mean, expected.log_scale};
          for (size_t part = 0; part < 3; ++part) {
            Wide largest = 1e-6L;
            for (int64_t k = 0; k < kLogistics; ++k)
              largest = std::max(largest, std::abs(parts[part][k]));
            for (size_t k = 0; k < kLogistics; ++k)
              ASSERT_NEAR(found[part * kLogistics + k], static_cast<double>(parts[part][k]),
                          dtype() == DType::f64 ? 1e-9 * static_cast<double>(largest)
                                                : 2e-7 + 4e-4 * static_cast<double>(largest))
                  << levels << " levels, mean " << mean << ", log scale " << log_scale << ", level "
                  << s << ", part " << part << " of " << k;
          }
        }
}

TEST_P(Ops, LogisticsStayFiniteAtExtremes) {
  const Tensor one = make({1}, {1}, dtype());
  for (const int64_t levels : {2, 4, 256})
    for (const double mean : {0.0, 1e3, -1e30, 1e30})
      for (const double log_scale : {-1e30, -7.0, 0.0, 80.0, 1e4})
        for (const double logit : {0.0, 1e30}) {
          Values row(3 * kLogistics, 0.0);
          row[0] = logit;
          std::fill_n(row.begin() + kLogistics, kLogistics, mean);
          std::fill_n(row.begin() + 2 * kLogistics, kLogistics, log_scale);
          const Tensor x = make(row, {1, 3 * kLogistics}, dtype());
          double total = 0;
          const Values scores = ops::logistics_scores(x, levels).to_doubles();
          for (const double score : scores) {
            EXPECT_TRUE(std::isfinite(score))
                << levels << ' ' << mean << ' ' << log_scale << ' ' << logit;
            total += std::exp(score);
          }
          EXPECT_NEAR(total, 1, 1e-5) << levels << ' ' << mean << ' ' << log_scale << ' ' << logit;
          for (int64_t s = 0; s < levels; ++s) {
            const Tensor target = Tensor::from<int32_t>({static_cast<int32_t>(s)}, {1});
            const ops::ScoredLoss saved = ops::logistics_loss(x, target, levels);
            EXPECT_TRUE(std::isfinite(saved.mean.item()));
            EXPECT_EQ(
                ops::count_nonfinite(ops::logistics_loss_backward(x, target, levels, saved, one)),
                0)
                << levels << ' ' << mean << ' ' << log_scale << ' ' << logit;
          }
        }
}

TEST(Logistics, Log1pOfKeepsSmallNumbers) {
  for (float t = 1.0f; t > 1e-37f; t *= 0.93f)
    ASSERT_NEAR(log1p_of(t) / std::log1p(static_cast<double>(t)), 1, 3e-7) << t;
  EXPECT_EQ(log1p_of(0.0f), 0.0f);
}

TEST(Logistics, RefuseInvalidMixtures) {
  const Tensor x = Tensor::zeros({2, 29}, DType::f32), targets = Tensor::zeros({2}, DType::i32);
  expect_error(ErrorKind::usage, {"logistics_loss", "[2,29]", "10"},
               [&] { ops::logistics_loss(x, targets, 4); });
  const Tensor y = Tensor::zeros({2, 30}, DType::f32);
  expect_error(ErrorKind::usage, {"1 levels"}, [&] { ops::logistics_scores(y, 1); });
  const Tensor three = Tensor::zeros({3}, DType::i32), fours = Tensor::from<int32_t>({4, 4}, {2});
  expect_error(ErrorKind::usage, {"[2,30]", "[3]"}, [&] { ops::logistics_loss(y, three, 4); });
  expect_error(ErrorKind::usage, {"4", "0..3"}, [&] { ops::logistics_loss(y, fours, 4); });
}

}  // namespace
}  // namespace linea::op_tests

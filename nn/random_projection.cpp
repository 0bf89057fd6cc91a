#include "nn/random_projection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/settings.h"

namespace linea {
namespace {

// Indices of a stream: 0 and on for omega, kLengths and on for the rows that give the lengths.
constexpr uint64_t kLengths = uint64_t{1} << 40;

// Rows of N(0, I), by the numbers of the stream from `first` on.
std::vector<double> normal_matrix(int64_t rows, int64_t cols, const RandomStream& stream,
                                  uint64_t first = 0) {
  std::vector<double> matrix(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = random_normal(stream, first + i);
  return matrix;
}

// Modified Gram-Schmidt, each row twice (Giraud et al. 2005: "twice is enough" for orthogonality to
// rounding). Rows of a Gaussian matrix become G = L Q with L's diagonal positive, which makes Q
// uniform on the orthogonal group, or its first rows where there are fewer than D (Mezzadri 2007,
// "How to generate random matrices from the classical compact groups").
void orthogonalize(double* block, int64_t rows, int64_t D) {
  for (int64_t r = 0; r < rows; ++r) {
    double* row = block + r * D;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t other = 0; other < r; ++other) {
        const double* before = block + other * D;
        const double along = std::inner_product(row, row + D, before, 0.0);
        for (int64_t d = 0; d < D; ++d) row[d] -= along * before[d];
      }
    const double length = std::sqrt(std::inner_product(row, row + D, row, 0.0));
    for (int64_t d = 0; d < D; ++d) row[d] /= length;
  }
}

// Lengths of independent rows of N(0, I).
std::vector<double> random_lengths(int64_t rows, int64_t D, const RandomStream& stream) {
  const std::vector<double> matrix = normal_matrix(rows, D, stream, kLengths);
  std::vector<double> lengths;
  for (const double* row = matrix.data(); row != matrix.data() + rows * D; row += D)
    lengths.push_back(std::sqrt(std::inner_product(row, row + D, row, 0.0)));
  return lengths;
}

// The lengths with the probabilities i / (R + 1), in the order of random lengths: all orders are
// equally likely, and each row has its random length moved to the stratum.
std::vector<double> stratified_lengths(int64_t rows, int64_t D, const RandomStream& stream) {
  const std::vector<double> random = random_lengths(rows, D, stream);
  std::vector<size_t> order(random.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return random[a] < random[b]; });
  std::vector<double> lengths(random.size());
  for (size_t i = 0; i < order.size(); ++i)
    lengths[order[i]] =
        length_quantile(D, static_cast<double>(i + 1) / static_cast<double>(rows + 1));
  return lengths;
}

// P(a, x) = the integral of t^(a-1) exp(-t) / Gamma(a) from 0 to x, the regularized incomplete
// gamma function: below a + 1 by its series, DLMF 8.11.4, above by 1 - the continued fraction of Q,
// DLMF 8.9.2, evaluated by Lentz's method.
double incomplete_gamma(double a, double x) {
  if (x <= 0) return 0;
  constexpr double kEnough = std::numeric_limits<double>::epsilon() / 4;
  const double factor = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = 1; term > kEnough * sum; ++n) {
      term *= x / (a + n);
      sum += term;
    }
    return factor * sum;
  }
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, fraction = d;
  for (double n = 1; n < 1e6; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = numerator * d + b;
    d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
    c = b + numerator / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    fraction *= c * d;
    if (std::fabs(c * d - 1) < 4 * kEnough) break;
  }
  return 1 - factor * fraction;
}

}  // namespace

Projection parse_projection(const std::string& name) {
  return static_cast<Projection>(check_choice("projection", name, projection_names()));
}

// P_D(r) = P(D/2, r^2/2), whose gradient is r^(D-1) exp(-r^2/2) / (2^(D/2-1) Gamma(D/2)). Newton's
// steps, replaced by halving where they would leave the interval that holds the answer.
double length_quantile(int64_t key_size, double probability) {
  require(key_size >= 1, "the size of a key is {}; it must be at least 1", key_size);
  require(probability > 0 && probability < 1,
          "a probability of {} has no quantile; it must be within 0 and 1", probability);
  const double D = static_cast<double>(key_size), a = D / 2;
  // Mean at most sqrt(D) and stddev below 1: beyond sqrt(D) + 40 a double holds no probability.
  double low = 0, high = std::sqrt(D) + 40;
  double r = std::sqrt(std::max(D - 0.5, 0.5));  // near the median
  for (int round = 0; round < 200; ++round) {
    const double error = incomplete_gamma(a, r * r / 2) - probability;
    (error < 0 ? low : high) = r;
    const double grad =
        std::exp((D - 1) * std::log(r) - r * r / 2 - (a - 1) * std::log(2.0) - std::lgamma(a));
    double next = r - error / grad;
    if (!(next > low && next < high)) next = (low + high) / 2;
    const double step = std::fabs(next - r);
    r = next;
    if (step <= 1e-14 * r) break;
  }
  return r;
}

std::vector<double> draw_projection(Projection projection, int64_t rows, int64_t key_size,
                                    const RandomStream& stream) {
  require(rows >= 1 && key_size >= 1,
          "a projection of {} rows of {} numbers; both must be at least 1", rows, key_size);
  std::vector<double> omega = normal_matrix(rows, key_size, stream);
  if (projection == Projection::iid) return omega;
  for (int64_t first = 0; first < rows; first += key_size)
    orthogonalize(omega.data() + first * key_size, std::min(key_size, rows - first), key_size);
  std::vector<double> lengths(static_cast<size_t>(rows), std::sqrt(static_cast<double>(key_size)));
  if (projection == Projection::orthogonal) lengths = random_lengths(rows, key_size, stream);
  if (projection == Projection::stratified) lengths = stratified_lengths(rows, key_size, stream);
  for (size_t i = 0; i < omega.size(); ++i) omega[i] *= lengths[i / static_cast<size_t>(key_size)];
  return omega;
}

}  // namespace linea

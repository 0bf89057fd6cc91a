#include "judge/frechet.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace linea {
namespace {

using Matrix = std::vector<double>;  // [n,n], row-major

// A = V diag(values) V^T.
struct Eigensystem {
  std::vector<double> values;
  Matrix vectors;  // in columns
};

// Columns p and q of m, rotated: (x, y) -> (c x - s y, s x + c y).
void rotate_columns(Matrix& m, size_t n, size_t p, size_t q, double c, double s) {
  for (size_t k = 0; k < n; ++k) {
    const double x = m[k * n + p], y = m[k * n + q];
    m[k * n + p] = c * x - s * y;
    m[k * n + q] = s * x + c * y;
  }
}

void rotate_rows(Matrix& m, size_t n, size_t p, size_t q, double c, double s) {
  for (size_t k = 0; k < n; ++k) {
    const double x = m[p * n + k], y = m[q * n + k];
    m[p * n + k] = c * x - s * y;
    m[q * n + k] = s * x + c * y;
  }
}

// Cyclic Jacobi rotations of a symmetric matrix (Golub & Van Loan 2013, section 8.5).
Eigensystem eigensystem(Matrix a, size_t n) {
  constexpr int kMaxSweeps = 60;
  Matrix v(n * n);
  for (size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  double all = 0;
  for (const double x : a) all += x * x;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double off_diagonal = 0;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) off_diagonal += a[p * n + q] * a[p * n + q];
    if (off_diagonal <= 1e-32 * all) break;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        rotate_columns(a, n, p, q, c, s);
        rotate_rows(a, n, p, q, c, s);
        rotate_columns(v, n, p, q, c, s);
      }
  }
  Eigensystem result{std::vector<double>(n), std::move(v)};
  for (size_t i = 0; i < n; ++i) result.values[i] = a[i * n + i];
  return result;
}

Matrix product(const Matrix& a, const Matrix& b, size_t n) {
  Matrix c(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k)
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

// Square root of a positive semidefinite matrix; eigenvalues negative by rounding count as 0.
Matrix square_root(const Matrix& a, size_t n) {
  const Eigensystem e = eigensystem(a, n);
  Matrix scaled(n * n), transposed(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      scaled[i * n + j] = e.vectors[i * n + j] * std::sqrt(std::max(e.values[j], 0.0));
      transposed[j * n + i] = e.vectors[i * n + j];
    }
  return product(scaled, transposed, n);
}

}  // namespace

Moments moments(const std::vector<float>& features, int64_t size, std::vector<double> weights) {
  const auto n = static_cast<size_t>(size);
  const size_t count = features.size() / n;
  require(count >= 2, "a covariance of {} vectors; it needs at least 2", count);
  if (weights.empty()) weights.assign(count, 1 / static_cast<double>(count));
  Moments result{size, std::vector<double>(n), Matrix(n * n)};
  for (size_t i = 0; i < features.size(); ++i) result.mean[i % n] += weights[i / n] * features[i];
  std::vector<double> centered(n);
  double left = 1;
  for (size_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < n; ++i) centered[i] = features[r * n + i] - result.mean[i];
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        result.covariance[i * n + j] += weights[r] * centered[i] * centered[j];
    left -= weights[r] * weights[r];
  }
  for (double& x : result.covariance) x /= left;
  return result;
}

// C1 C2 has the eigenvalues of the symmetric matrix C1^1/2 C2 C1^1/2, so that
// tr (C1 C2)^1/2 is the sum of their square roots.
double frechet_distance(const Moments& a, const Moments& b) {
  require(a.size == b.size, "a distance between {} and {} features", a.size, b.size);
  const auto n = static_cast<size_t>(a.size);
  const Matrix root = square_root(a.covariance, n);
  Matrix inner = product(product(root, b.covariance, n), root, n);
  for (size_t i = 0; i < n; ++i)  // symmetric up to rounding
    for (size_t j = 0; j < i; ++j)
      inner[i * n + j] = inner[j * n + i] = (inner[i * n + j] + inner[j * n + i]) / 2;
  double distance = 0;
  for (size_t i = 0; i < n; ++i) {
    const double shift = a.mean[i] - b.mean[i];
    distance += shift * shift + a.covariance[i * n + i] + b.covariance[i * n + i];
  }
  for (const double value : eigensystem(inner, n).values)
    distance -= 2 * std::sqrt(std::max(value, 0.0));
  return distance;
}

}  // namespace linea

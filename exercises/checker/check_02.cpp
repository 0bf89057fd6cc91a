#include "checker.h"

namespace {

// A number that counts the multiplications of its kind.
struct Counted {
  Counted(double x = 0) : value(x) {}
  double value;
  static inline long multiplications = 0;
  Counted& operator+=(const Counted& x) { return value += x.value, *this; }
  Counted& operator-=(const Counted& x) { return value -= x.value, *this; }
  Counted& operator*=(const Counted& x) { return *this = *this * x; }
  Counted& operator/=(const Counted& x) { return value /= x.value, *this; }
  friend Counted operator*(const Counted& a, const Counted& b) {
    return ++multiplications, Counted(a.value * b.value);
  }
  friend Counted operator+(const Counted& a, const Counted& b) { return {a.value + b.value}; }
  friend Counted operator-(const Counted& a, const Counted& b) { return {a.value - b.value}; }
  friend Counted operator/(const Counted& a, const Counted& b) { return {a.value / b.value}; }
};

}  // namespace

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, no_denominator, by_count, by_sum };

Numbers reference(const Numbers& q, const Numbers& k, const Numbers& v,
                  Mistake made = Mistake::none) {
  const int N = q.rows(), F = q.width(), M = v.width();
  Numbers y(N, M);
  double all = 0;
  for (int j = 0; j < N; ++j)
    for (int f = 0; f < F; ++f) all += k(j, f);
  for (int i = 0; i < N; ++i) {
    double sum = 0;
    for (int j = 0; j < N; ++j) {
      double a = 0;
      for (int f = 0; f < F; ++f) a += q(i, f) * k(j, f);
      sum += a;
      for (int m = 0; m < M; ++m) y(i, m) += a * v(j, m);
    }
    const double divisor = made == Mistake::no_denominator ? 1
                           : made == Mistake::by_count     ? N
                           : made == Mistake::by_sum       ? all
                                                           : sum;
    for (int m = 0; m < M; ++m) y(i, m) /= divisor;
  }
  return y;
}

std::string check(const Features& in) {
  const auto& [q, k, v] = in;
  Numbers y(q.rows(), v.width());
  linear<double>(q, k, v, y.edit());
  const auto wrong = [&](Mistake made) {
    return [&in, made] { return reference(in.q, in.k, in.v, made); };
  };
  return compare(
      y, reference(q, k, v),
      {{"y is not divided: by q_i.z, z the sum of all keys", wrong(Mistake::no_denominator)},
       {"divided by N: divide by q_i.z, the sum of the weights of row i", wrong(Mistake::by_count)},
       {"divided by the sum of all features of keys: weigh them by q_i first, q_i.z",
        wrong(Mistake::by_sum)}});
}

Matrix<Counted> counted(const Numbers& x) {
  Matrix<Counted> y(x.rows(), x.width());
  for (int i = 0; i < x.rows(); ++i)
    for (int f = 0; f < x.width(); ++f) y(i, f) = x(i, f);
  return y;
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] { return check(toy_features()); };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) { return check(some_features(random, n)); });
  };
  const auto order = [seed] {
    constexpr int N = 100, F = 7, M = 5;
    Random random(seed);
    const Matrix<Counted> q = counted(random.features(N, F)), k = counted(random.features(N, F)),
                          v = counted(random.rows(N, M));
    Matrix<Counted> y(N, M);
    Counted::multiplications = 0;
    linear<Counted>(q, k, v, y.edit());
    if (static_cast<double>(Counted::multiplications) <= 2.2 * N * F * (M + 1))
      return std::string();
    return format(
        "right, with %ld multiplications where %d do (N %d, F %d, M %d): sum k_j^T v_j over j "
        "first",
        Counted::multiplications, 2 * N * F * M + N * F, N, F, M);
  };
  return {"02", "brackets", {{"toy", toy}, {"random sizes", sizes}, {"order", order}}};
}

#include "checker.h"

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, no_square, no_root, of_x, no_mean, trig };

Numbers reference(const Numbers& x, const Numbers& omega, Mistake made = Mistake::none) {
  const int D = x.width(), R = omega.rows();
  const double root = made == Mistake::no_root ? 1 : std::pow(D, 0.25);
  double square = 0;
  for (int d = 0; d < D; ++d)
    square += x(0, d) * x(0, d) / (made == Mistake::of_x ? 1 : root * root);
  Numbers phi(1, R);
  for (int r = 0; r < R; ++r) {
    double u = 0;
    for (int d = 0; d < D; ++d) u += omega(r, d) * x(0, d) / root;
    if (made == Mistake::trig)
      phi(0, r) = std::cos(u) * std::exp(square / 2);
    else
      phi(0, r) = std::exp(u - (made == Mistake::no_square ? 0 : square / 2));
    if (made != Mistake::no_mean) phi(0, r) /= std::sqrt(R);
  }
  return phi;
}

Numbers computed(const Numbers& x, const Numbers& omega) {
  Numbers phi(1, omega.rows());
  favor(x[0], omega, phi.edit()[0]);
  return phi;
}

std::string check(const Numbers& x, const Numbers& omega) {
  const auto wrong = [&](Mistake made) { return [&, made] { return reference(x, omega, made); }; };
  return compare(
      computed(x, omega), reference(x, omega),
      {{"products are too large by exp((|q^|^2 + |k^|^2) / 2): -|x^|^2 / 2 is missing",
        wrong(Mistake::no_square)},
       {"these are features of exp(q.k): take x^ = x / D^(1/4), not x", wrong(Mistake::no_root)},
       {"|x|^2 where |x^|^2 is due: x^ = x / D^(1/4) in both places", wrong(Mistake::of_x)},
       {"a sum over R rows where a mean is due: divide by sqrt(R)", wrong(Mistake::no_mean)},
       {"some are negative: cos gives trigonometric features, exp positive ones",
        wrong(Mistake::trig)}},
      1e-9, "phi");
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] {  // x^ = (1, 0, ...): exp(w_1 - 1/2) / sqrt(2)
    return check(matrix({{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}),
                 matrix({{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                         {-1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}));
  };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) {
      const int D = 2 + 3 * n;
      const Numbers x = random.rows(1, D);
      return check(x, random.rows(3 + 4 * n, D));
    });
  };
  const auto mean = [seed] {
    constexpr int D = 4, kDraws = 20000;
    Random random(seed);
    // |q^ + k^|^2 = 1.5
    const Numbers q = matrix({{1, 0.5, 0, 0}}), k = matrix({{0.5, 0.5, 0.5, 0}});
    double sum = 0, squares = 0, product = 0;
    for (int d = 0; d < D; ++d) product += q(0, d) * k(0, d);
    for (int n = 0; n < kDraws; ++n) {
      const Numbers omega = random.rows(2, D), a = computed(q, omega), b = computed(k, omega);
      const double estimate = a(0, 0) * b(0, 0) + a(0, 1) * b(0, 1);
      sum += estimate;
      squares += estimate * estimate;
    }
    const double average = sum / kDraws,
                 error = std::sqrt((squares / kDraws - average * average) / kDraws),
                 truth = std::exp(product / 2);
    if (std::abs(average - truth) <= 4 * error) return std::string();
    return format("the mean of %d estimates is %.4f, and exp(q.k / sqrt(D)) is %.4f", kDraws,
                  average, truth);
  };
  return {"06", "features", {{"toy", toy}, {"random sizes", sizes}, {"mean", mean}}};
}

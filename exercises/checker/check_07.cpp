#include "checker.h"

#include <algorithm>
#include <limits>

#include EXERCISE

namespace {

using namespace checker;
using Floats = Matrix<float>;

Floats floats(const Numbers& x) {
  Floats y(x.rows(), x.width());
  for (int i = 0; i < x.rows(); ++i)
    for (int f = 0; f < x.width(); ++f) y(i, f) = static_cast<float>(x(i, f));
  return y;
}
Numbers numbers(const Floats& x) {
  Numbers y(x.rows(), x.width());
  for (int i = 0; i < x.rows(); ++i)
    for (int f = 0; f < x.width(); ++f) y(i, f) = static_cast<double>(x(i, f));
  return y;
}

// In double, with the largest of a row taken out; `epsilon` is added to the denominator as it is.
Numbers reference(const Floats& log_q, const Floats& log_k, const Floats& v, double epsilon = 0,
                  bool shifted = true) {
  const int N = log_q.rows(), F = log_q.width(), M = v.width();
  Numbers y(N, M);
  for (int i = 0; i < N; ++i) {
    double largest = -std::numeric_limits<double>::infinity(), sum = epsilon;
    for (int j = 0; j <= i; ++j)
      for (int f = 0; f < F; ++f)
        largest = std::max(largest, double(log_q(i, f)) + double(log_k(j, f)));
    if (!shifted) largest = 0;
    for (int j = 0; j <= i; ++j)
      for (int f = 0; f < F; ++f) {
        const double w = std::exp(double(log_q(i, f)) + double(log_k(j, f)) - largest);
        sum += w;
        for (int m = 0; m < M; ++m) y(i, m) += w * double(v(j, m));
      }
    for (int m = 0; m < M; ++m) y(i, m) /= sum;
  }
  return y;
}

Floats computed(const Floats& log_q, const Floats& log_k, const Floats& v) {
  Floats y(v.rows(), v.width());
  stable(log_q, log_k, v, y.edit());
  y.check_gaps();
  return y;
}

std::string check(const Floats& log_q, const Floats& log_k, const Floats& v, double tolerance) {
  const Numbers y = numbers(computed(log_q, log_k, v));
  if (const int row = row_not_finite(y); row >= 0)
    return format("0/0 or inf at row %d: take the row's largest log out before exp", row);
  std::vector<Wrong> wrong;
  for (const double epsilon : {1e-6, 1e-8, 1e-5, 1e-12})
    wrong.push_back({format("off by %g / d: an epsilon in the denominator, where the largest log "
                            "should be taken out",
                            epsilon),
                     [&, epsilon] { return reference(log_q, log_k, v, epsilon, false); }});
  return compare(y, reference(log_q, log_k, v), wrong, tolerance);
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] {  // weights 1 and 3
    const float log3 = std::log(3.0f);
    Floats log_q(2, 1), log_k(2, 1), v(2, 1);
    log_k(1, 0) = log3;
    v(0, 0) = 4;
    v(1, 0) = 8;
    return check(log_q, log_k, v, 1e-5);
  };
  const auto small = [seed] {  // weights of about 1e-7
    Random random(seed);
    Floats log_q = floats(random.rows(8, 4)), log_k = floats(random.rows(8, 4));
    for (int i = 0; i < 8; ++i)
      for (int f = 0; f < 4; ++f) log_k(i, f) -= 16;
    return check(log_q, log_k, floats(random.rows(8, 3)), 1e-4);
  };
  const auto wide = [seed] {
    return of_sizes(seed, [](Random& random, int n) {
      const int N = 4 + 3 * n, F = 2 + n;
      const double stddev = n % 2 == 0 ? 64 : 250;  // keys of standard deviation 8, and more
      const Floats log_q = floats(random.rows(N, F, stddev)),
                   log_k = floats(random.rows(N, F, stddev));
      return check(log_q, log_k, floats(random.rows(N, 1 + n % 3)), 1e-3);
    });
  };
  const auto later = [seed] {
    Random random(seed);
    const Floats log_q = floats(random.rows(12, 4)), v = floats(random.rows(12, 3));
    Floats log_k = floats(random.rows(12, 4));
    const Floats y = computed(log_q, log_k, v);
    for (const float change : {0.3f, 5.0f, 300.0f}) {
      for (int f = 0; f < 4; ++f) log_k(9, f) += change;
      const Floats other = computed(log_q, log_k, v);
      for (int i = 0; i < 9; ++i)
        for (int m = 0; m < 3; ++m)
          if (y(i, m) != other(i, m))
            return format("y_%d changed when key 9 did: your maximum is over the whole sequence",
                          i);
    }
    return std::string();
  };
  return {"07",
          "range",
          {{"toy", toy}, {"small weights", small}, {"later keys", later}, {"wide logs", wide}}};
}

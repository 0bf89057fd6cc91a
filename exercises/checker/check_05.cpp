#include "checker.h"

#include <algorithm>

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, numerator, forward_sum, undivided, sees_later };

struct Inputs {
  Numbers q, k, v, dy;
};
struct Gradients {
  Numbers dq, dk, dv;
};

Gradients reference(const Inputs& in, Mistake made = Mistake::none) {
  const auto& [q, k, v, dy] = in;
  const int N = q.rows(), F = q.width(), M = v.width();
  Gradients g{Numbers(N, F), Numbers(N, F), Numbers(N, M)};
  Numbers a(N, N), d(N, 1), y(N, M);
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j <= i; ++j) {
      for (int f = 0; f < F; ++f) a(i, j) += q(i, f) * k(j, f);
      d(i, 0) += a(i, j);
      for (int m = 0; m < M; ++m) y(i, m) += a(i, j) * v(j, m);
    }
    for (int m = 0; m < M; ++m) y(i, m) /= d(i, 0);
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      double da = 0;  // dy_i.(v_j - y_i) / d_i
      for (int m = 0; m < M; ++m)
        da += dy(i, m) * (v(j, m) - (made == Mistake::numerator ? 0 : y(i, m))) / d(i, 0);
      const bool seen = j <= i || made == Mistake::sees_later,
                 seen_by = made == Mistake::forward_sum ? i <= j : j <= i;
      for (int f = 0; f < F; ++f) {
        if (seen) g.dq(i, f) += da * k(j, f);
        if (seen_by) g.dk(j, f) += da * q(i, f);
      }
      for (int m = 0; m < M; ++m)
        if (j <= i) g.dv(j, m) += a(i, j) * dy(i, m) / (made == Mistake::undivided ? 1 : d(i, 0));
    }
  return g;
}

Gradients computed(const Inputs& in) {
  Gradients g{Numbers(in.q.rows(), in.q.width()), Numbers(in.q.rows(), in.q.width()),
              Numbers(in.q.rows(), in.v.width())};
  backward(in.q, in.k, in.v, in.dy, g.dq.edit(), g.dk.edit(), g.dv.edit());
  return g;
}

std::string check(const Inputs& in) {
  const Gradients found = computed(in), right = reference(in);
  const auto wrong = [&](Mistake made, Numbers Gradients::*which) {
    return [&in, made, which] { return reference(in, made).*which; };
  };
  const std::string numerator =
      "dq and dk are those of the numerator alone: you forgot the denominator's gradient, e_i z "
      "and r_j";
  std::string message = compare(found.dq, right.dq,
                                {{numerator, wrong(Mistake::numerator, &Gradients::dq)},
                                 {"dq_i sums over keys after i: S_i and z_i end at i",
                                  wrong(Mistake::sees_later, &Gradients::dq)}},
                                1e-9, "dq");
  if (message.empty())
    message = compare(found.dk, right.dk,
                      {{numerator, wrong(Mistake::numerator, &Gradients::dk)},
                       {"dk_j sums over the queries i <= j: this sweep runs from the end",
                        wrong(Mistake::forward_sum, &Gradients::dk)}},
                      1e-9, "dk");
  if (message.empty())
    message = compare(
        found.dv, right.dv,
        {{"dv takes dy_i: divide it by d_i first, n_i", wrong(Mistake::undivided, &Gradients::dv)}},
        1e-9, "dv");
  return message;
}

Inputs random_inputs(Random& random, int N, int F, int M) {
  return {random.features(N, F), random.features(N, F), random.rows(N, M), random.rows(N, M)};
}

// The sum of dy.y, whose derivatives are the gradients.
double loss(const Inputs& in) {
  const auto& [q, k, v, dy] = in;
  double sum = 0;
  for (int i = 0; i < q.rows(); ++i) {
    double above = 0, below = 0;
    for (int j = 0; j <= i; ++j) {
      double a = 0, of_v = 0;
      for (int f = 0; f < q.width(); ++f) a += q(i, f) * k(j, f);
      for (int m = 0; m < v.width(); ++m) of_v += dy(i, m) * v(j, m);
      above += a * of_v;
      below += a;
    }
    sum += above / below;
  }
  return sum;
}

// Five-point differences of the loss against a gradient.
std::string differ(Inputs in, Numbers Inputs::*which, const Numbers& gradient, const char* name) {
  constexpr double h = 1e-3;
  Numbers& x = in.*which;
  double worst = 0, largest = 0;
  for (int i = 0; i < x.rows(); ++i)
    for (int f = 0; f < x.width(); ++f) {
      const double at = x(i, f);
      const auto moved = [&](double by) { return x(i, f) = at + by, loss(in); };
      const double numeric = (8 * (moved(h) - moved(-h)) - moved(2 * h) + moved(-2 * h)) / (12 * h);
      x(i, f) = at;
      worst = std::max(worst, std::abs(numeric - gradient(i, f)));
      largest = std::max(largest, std::abs(numeric));
    }
  return worst <= 1e-7 * largest
             ? ""
             : format("%s differs from five-point differences by %.1e", name, worst / largest);
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] {
    const auto [q, k, v] = toy_features();
    return check({q, k, v, matrix({{0, 0}, {0, 0}, {1, 0}})});
  };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) {
      return check(random_inputs(random, 2 + 3 * n, 2 + n, 1 + n % 4));
    });
  };
  const auto differences = [seed] {
    Random random(seed);
    const Inputs in = random_inputs(random, 6, 4, 3);
    const Gradients g = computed(in);
    std::string message = differ(in, &Inputs::q, g.dq, "dq");
    if (message.empty()) message = differ(in, &Inputs::k, g.dk, "dk");
    return message.empty() ? differ(in, &Inputs::v, g.dv, "dv") : message;
  };
  const auto bytes = [seed] {
    constexpr int F = 64, M = 64;
    const auto peak_of = [&](int N) {
      Random random(seed);
      const Inputs in = random_inputs(random, N, F, M);
      Gradients g{Numbers(N, F), Numbers(N, F), Numbers(N, M)};
      const size_t before = held_bytes();
      reset_peak();
      backward(in.q, in.k, in.v, in.dy, g.dq.edit(), g.dk.edit(), g.dv.edit());
      return peak_bytes() - before;
    };
    const size_t a_position = (peak_of(512) - peak_of(256)) / 256 / sizeof(double);
    if (a_position <= 4 * (F + M)) return std::string();
    return format(
        "right, but %zu numbers are saved for each position (F = M = 64): the states of all; "
        "recompute them",
        a_position);
  };
  return {"05",
          "backward",
          {{"toy", toy}, {"random sizes", sizes}, {"differences", differences}, {"bytes", bytes}}};
}

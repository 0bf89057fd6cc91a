#include "checker.h"

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, adds, before_decay, undivided, decays_all };

struct Write {
  Numbers S, k, v, q;
  double a, beta;
};

Numbers divided(const Numbers& x) {
  Numbers y = x;
  double sum = 0;
  for (int f = 0; f < x.width(); ++f) sum += x(0, f);
  for (int f = 0; f < x.width(); ++f) y(0, f) /= sum;
  return y;
}

// The new S, and below it y.
Numbers reference(const Write& in, Mistake made = Mistake::none) {
  const int F = in.S.rows(), M = in.S.width();
  const bool raw = made == Mistake::undivided;
  const Numbers f = raw ? in.k : divided(in.k), g = raw ? in.q : divided(in.q);
  Numbers all(F + 1, M);
  for (int m = 0; m < M; ++m) {
    double read = 0;
    for (int i = 0; i < F; ++i) read += f(0, i) * in.S(i, m);
    if (made != Mistake::before_decay) read *= in.a;
    const double error = in.v(0, m) - (made == Mistake::adds ? 0 : read);
    for (int i = 0; i < F; ++i) {
      const double written = in.beta * f(0, i) * error;
      all(i, m) = in.a * in.S(i, m) + (made == Mistake::decays_all ? in.a : 1) * written;
      all(F, m) += g(0, i) * all(i, m);
    }
  }
  return all;
}

Numbers computed(const Write& in) {
  const int F = in.S.rows(), M = in.S.width();
  Numbers S = in.S, y(1, M), all(F + 1, M);
  delta_step(S.edit(), in.k[0], in.v[0], in.a, in.beta, in.q[0], y.edit()[0]);
  S.check_gaps();
  y.check_gaps();
  for (int m = 0; m < M; ++m) {
    for (int i = 0; i < F; ++i) all(i, m) = S(i, m);
    all(F, m) = y(0, m);
  }
  return all;
}

std::string check(const Write& in) {
  const Numbers found = computed(in), right = reference(in);
  const auto wrong = [&](Mistake made) { return [&, made] { return reference(in, made); }; };
  const int F = in.S.rows();
  const auto values = [&](Mistake made) {
    return format("%g where %g is right", reference(in, made)(F, 0), right(F, 0));
  };
  return compare(
      found, right,
      {{values(Mistake::adds) + ": you add; write v minus what the key gives back",
        wrong(Mistake::adds)},
       {values(Mistake::before_decay) + ": decay first, then take the error",
        wrong(Mistake::before_decay)},
       {"other keys change too: divide k and q by their sums", wrong(Mistake::undivided)},
       {"what is written decays at once: decay S, then write", wrong(Mistake::decays_all)}},
      1e-9, "S, and below it y,");
}

Write random_write(Random& random, int F, int M, double a, double beta) {
  return {
      random.rows(F, M), random.features(1, F), random.rows(1, M), random.features(1, F), a, beta};
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] {  // lesson C's third step: 6 is written where 8 was
    return check(
        {matrix({{8}, {8}}), matrix({{1, 1e-9}}), matrix({{6}}), matrix({{1, 1e-9}}), 0.5, 0.5});
  };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) {
      return check(random_write(random, 2 + n, 1 + n % 4, 0.9 - 0.1 * n, 0.3 + 0.1 * n));
    });
  };
  const auto rewrites =
      [seed] {  // a key of one feature, beta = 1: what it gives back is the last value
        Random random(seed);
        Write in = random_write(random, 4, 3, 1, 1);
        in.k = in.q = matrix({{0, 5, 0, 0}});
        const Numbers all = computed(in);
        for (int m = 0; m < 3; ++m)
          if (std::abs(all(4, m) - in.v(0, m)) > 1e-9)
            return format("a second write with beta = 1 gives back %.6g, and %.6g was written",
                          all(4, m), in.v(0, m));
        return std::string();
      };
  const auto nothing = [seed] {
    Random random(seed);
    const Write in = random_write(random, 4, 3, 1, 0);
    const Numbers all = computed(in);
    for (int i = 0; i < 4; ++i)
      for (int m = 0; m < 3; ++m)
        if (all(i, m) != in.S(i, m))
          return std::string("beta = 0 writes, where it should write nothing");
    return std::string();
  };
  return {"08",
          "delta",
          {{"toy", toy}, {"random sizes", sizes}, {"rewrites", rewrites}, {"beta = 0", nothing}}};
}

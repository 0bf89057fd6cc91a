#include "checker.h"

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, late, by_count, no_denominator, last_alone };

Numbers reference(const Numbers& q, const Numbers& k, const Numbers& v,
                  Mistake made = Mistake::none) {
  const int N = q.rows(), F = q.width(), M = v.width();
  Numbers S(F, M), z(1, F), y(N, M);
  const auto write = [&](int j) {
    for (int f = 0; f < F; ++f) {
      for (int m = 0; m < M; ++m)
        S(f, m) = (made == Mistake::last_alone ? 0 : S(f, m)) + k(j, f) * v(j, m);
      z(0, f) = (made == Mistake::last_alone ? 0 : z(0, f)) + k(j, f);
    }
  };
  for (int i = 0; i < N; ++i) {
    if (made != Mistake::late) write(i);
    double sum = 0;
    for (int f = 0; f < F; ++f) {
      sum += q(i, f) * z(0, f);
      for (int m = 0; m < M; ++m) y(i, m) += q(i, f) * S(f, m);
    }
    if (made == Mistake::by_count) sum = i + 1;
    if (made == Mistake::no_denominator) sum = 1;
    for (int m = 0; m < M; ++m) y(i, m) /= sum;
    if (made == Mistake::late) write(i);
  }
  return y;
}

Numbers outputs(const Numbers& q, const Numbers& k, const Numbers& v) {
  Numbers y(q.rows(), v.width());
  State state(q.width(), v.width());
  for (int i = 0; i < q.rows(); ++i) {
    state.write(k[i], v[i]);
    state.read(q[i], y.edit()[i]);
  }
  return y;
}

std::string check(const Features& in) {
  const auto& [q, k, v] = in;
  const auto wrong = [&](Mistake made) {
    return [&in, made] { return reference(in.q, in.k, in.v, made); };
  };
  return compare(
      outputs(q, k, v), reference(q, k, v),
      {{"y_1 is that of an empty state: a write must show in the next read", wrong(Mistake::late)},
       {"divided by the number of positions: divide by q_i.z", wrong(Mistake::by_count)},
       {"y is not divided by q_i.z", wrong(Mistake::no_denominator)},
       {"y_i is v_i: the state forgets all but the last key; add to it",
        wrong(Mistake::last_alone)}});
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] { return check(toy_features()); };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) { return check(some_features(random, n)); });
  };
  const auto bytes = [seed] {
    constexpr int F = 64, M = 64, kFew = 64, kMany = 256;
    Random random(seed);
    const Numbers k = random.features(kMany, F), v = random.rows(kMany, M);
    State state(F, M);
    size_t after_few = 0;
    for (int i = 0; i < kMany; ++i) {
      state.write(k[i], v[i]);
      if (i + 1 == kFew) after_few = held_bytes();
    }
    const size_t grown = held_bytes() - after_few;
    if (grown == 0) return std::string();
    return format(
        "right, but your state grew by %zu bytes a position (D = M = 64): it keeps keys and values",
        grown / static_cast<size_t>(kMany - kFew));
  };
  return {"03", "state", {{"toy", toy}, {"random sizes", sizes}, {"bytes", bytes}}};
}

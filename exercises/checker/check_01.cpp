#include "checker.h"

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, no_scale, by_D, over_queries, no_mask, mask_after, strict };

Numbers reference(const Numbers& q, const Numbers& k, const Numbers& v, bool causal,
                  Mistake made = Mistake::none) {
  const int N = q.rows(), D = q.width(), M = v.width();
  Numbers weights(N, N), y(N, M);
  const auto sees = [&](int i, int j) {
    return !causal || made == Mistake::no_mask || (made == Mistake::strict ? j < i : j <= i);
  };
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      double score = 0;
      for (int d = 0; d < D; ++d) score += q(i, d) * k(j, d);
      score /= made == Mistake::no_scale ? 1 : made == Mistake::by_D ? D : std::sqrt(D);
      weights(i, j) = sees(i, j) || made == Mistake::mask_after ? std::exp(score) : 0;
    }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = 0;
      for (int l = 0; l < N; ++l)
        sum += made == Mistake::over_queries ? weights(l, j) : weights(i, l);
      const double a = sees(i, j) ? weights(i, j) / sum : 0;
      for (int m = 0; m < M; ++m) y(i, m) += a * v(j, m);
    }
  return y;
}

// With the values 1 the outputs are the sums of the weights.
double row_sum(const Numbers& q, const Numbers& k, bool causal, int i) {
  Numbers ones(q.rows(), 1);
  for (int j = 0; j < q.rows(); ++j) ones(j, 0) = 1;
  return reference(q, k, ones, causal, Mistake::over_queries)(i, 0);
}

std::string check(const Numbers& q, const Numbers& k, const Numbers& v, bool causal) {
  Numbers y(q.rows(), v.width());
  attention(q, k, v, causal, y.edit());
  const auto wrong = [&](Mistake made) {
    return [&, made] { return reference(q, k, v, causal, made); };
  };
  return compare(
      y, reference(q, k, v, causal),
      {{"q.k: divide by sqrt(D)", wrong(Mistake::no_scale)},
       {"q.k / D: divide by sqrt(D)", wrong(Mistake::by_D)},
       {format("row 1 sums to %.2f, column 1 to 1: you normalized over queries",
               row_sum(q, k, causal, 1)),
        wrong(Mistake::over_queries)},
       {"row 0 sees key 1: a causal row sees the keys j <= i", wrong(Mistake::no_mask)},
       {"the rows do not sum to 1: mask before the sum, not after it", wrong(Mistake::mask_after)},
       {"row 1 does not see key 1: j <= i, its own key too", wrong(Mistake::strict)}});
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] {
    const Numbers x = matrix({{0, 0}, {0, 1}, {1, 0}}), k = matrix({{0, 0}, {1, 0}, {0, 2}}),
                  v = matrix({{1, 0}, {0, 1}, {1, 1}});
    const std::string message = check(x, k, v, true);
    return message.empty() ? check(x, k, v, false) : message;
  };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) {
      const int N = 3 + 2 * n, D = 2 + n;
      const Numbers q = random.rows(N, D), k = random.rows(N, D), v = random.rows(N, 1 + n % 4);
      return check(q, k, v, n % 2 == 0);
    });
  };
  const auto large = [seed] {
    Random random(seed);
    const Numbers q = random.rows(5, 4, 60), k = random.rows(5, 4, 60), v = random.rows(5, 3);
    Numbers y(5, 3);
    attention(q, k, v, true, y.edit());
    const int row = row_not_finite(y);
    return row < 0
               ? std::string()
               : format("not finite at row %d: take the row's largest score out before exp", row);
  };
  const auto later = [seed] {
    Random random(seed);
    const Numbers q = random.rows(5, 4), v = random.rows(5, 3);
    Numbers k = random.rows(5, 4), y(5, 3), other(5, 3);
    attention(q, k, v, true, y.edit());
    for (int d = 0; d < 4; ++d) k(3, d) = NAN;
    attention(q, k, v, true, other.edit());
    for (int i = 0; i < 3; ++i)
      for (int m = 0; m < 3; ++m)
        if (!(y(i, m) == other(i, m)))
          return format(
              "row %d changes when key 3 is NaN: leave out what a row does not see; 0 NaN is NaN",
              i);
    return std::string();
  };
  return {"01",
          "mean",
          {{"toy", toy}, {"random sizes", sizes}, {"large scores", large}, {"later keys", later}}};
}

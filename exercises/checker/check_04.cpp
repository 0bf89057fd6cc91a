#include "checker.h"

#include <algorithm>

#include EXERCISE

namespace {

using namespace checker;

enum class Mistake { none, no_diagonal, whole_chunk, forgets, no_z };

// The weights of row i that the chunks give.
Numbers reference(const Numbers& q, const Numbers& k, const Numbers& v, int chunk,
                  Mistake made = Mistake::none) {
  const int N = q.rows(), F = q.width(), M = v.width();
  Numbers y(N, M);
  for (int i = 0; i < N; ++i) {
    const int first = i / chunk * chunk;
    double sum = 0;
    for (int j = 0; j < N; ++j) {
      if (made == Mistake::whole_chunk ? j >= first + chunk : j > i) continue;
      if (made == Mistake::no_diagonal && j == i) continue;
      if (made == Mistake::forgets && j < first) continue;
      double a = 0;
      for (int f = 0; f < F; ++f) a += q(i, f) * k(j, f);
      if (made != Mistake::no_z || j >= first) sum += a;
      for (int m = 0; m < M; ++m) y(i, m) += a * v(j, m);
    }
    for (int m = 0; m < M; ++m) y(i, m) /= sum;
  }
  return y;
}

std::string check(const Features& in, int chunk) {
  const auto& [q, k, v] = in;
  Numbers y(q.rows(), v.width());
  chunked(q, k, v, chunk, y.edit());
  const auto wrong = [&](Mistake made) {
    return [&in, chunk, made] { return reference(in.q, in.k, in.v, chunk, made); };
  };
  return compare(
      y, reference(q, k, v, chunk),
      {{"no row sees its own key: the diagonal is missing", wrong(Mistake::no_diagonal)},
       {format("row 0 sees key %d: read the state before the chunk is added to it",
               std::min(chunk, q.rows()) - 1),
        wrong(Mistake::whole_chunk)},
       {format("row %d does not see key 0: add q_i S, of the chunks before",
               std::min(chunk, q.rows() - 1)),
        wrong(Mistake::forgets)},
       {"the denominator has the keys of the chunk alone: add q_i.z, of the chunks before",
        wrong(Mistake::no_z)}});
}

}  // namespace

checker::Exercise exercise(unsigned seed) {
  const auto toy = [] { return check(toy_features(), 2); };
  const auto sizes = [seed] {
    return of_sizes(seed, [](Random& random, int n) {
      const Features in = some_features(random, n);
      const int N = in.q.rows();
      for (const int chunk : {3, 4, 1, N, N + 5})
        if (const std::string message = check(in, chunk); !message.empty())
          return message + format(" (N %d, chunk %d)", N, chunk);
      return std::string();
    });
  };
  return {"04", "chunk", {{"toy", toy}, {"random sizes", sizes}}};
}

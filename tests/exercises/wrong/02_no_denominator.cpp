// hint: y is not divided
#include "exercise.h"

template <class T>
void linear(RowsOf<const T> q, RowsOf<const T> k, RowsOf<const T> v, RowsOf<T> y) {
  const int F = q.width(), M = v.width();
  std::vector<T> S(static_cast<size_t>(F * M), T(0)), z(static_cast<size_t>(F), T(0));
  for (int j = 0; j < k.size(); ++j)
    for (int f = 0; f < F; ++f) {
      z[static_cast<size_t>(f)] += k[j][f];
      for (int m = 0; m < M; ++m) S[static_cast<size_t>(f * M + m)] += k[j][f] * v[j][m];
    }
  for (int i = 0; i < q.size(); ++i) {
    T sum = T(0);
    for (int f = 0; f < F; ++f) sum += q[i][f] * z[static_cast<size_t>(f)];
    for (int m = 0; m < M; ++m) {
      T read = T(0);
      for (int f = 0; f < F; ++f) read += q[i][f] * S[static_cast<size_t>(f * M + m)];
      y[i][m] = read;
    }
  }
}

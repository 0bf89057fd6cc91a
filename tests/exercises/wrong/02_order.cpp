// hint: sum k_j^T v_j over j first
#include "exercise.h"

template <class T>
void linear(RowsOf<const T> q, RowsOf<const T> k, RowsOf<const T> v, RowsOf<T> y) {
  const int F = q.width(), M = v.width();
  for (int i = 0; i < q.size(); ++i) {
    T sum = T(0);
    for (int m = 0; m < M; ++m) y[i][m] = T(0);
    for (int j = 0; j < k.size(); ++j) {
      T a = T(0);
      for (int f = 0; f < F; ++f) a += q[i][f] * k[j][f];
      sum += a;
      for (int m = 0; m < M; ++m) y[i][m] += a * v[j][m];
    }
    for (int m = 0; m < M; ++m) y[i][m] /= sum;
  }
}

#include <algorithm>

#include "exercise.h"

void stable(RowsOf<const float> log_q, RowsOf<const float> log_k, RowsOf<const float> v,
            RowsOf<float> y) {
  const int F = log_q.width(), M = v.width();
  for (int i = 0; i < v.size(); ++i) {
    float largest = log_q[i][0] + log_k[0][0], sum = 0;
    for (int j = 0; j <= i; ++j)
      for (int f = 0; f < F; ++f) largest = std::max(largest, log_q[i][f] + log_k[j][f]);
    for (int m = 0; m < M; ++m) y[i][m] = 0;
    for (int j = 0; j <= i; ++j) {
      float w = 0;
      for (int f = 0; f < F; ++f) w += std::exp(log_q[i][f] + log_k[j][f] - largest);
      sum += w;
      for (int m = 0; m < M; ++m) y[i][m] += w * v[j][m];
    }
    for (int m = 0; m < M; ++m) y[i][m] /= sum;
  }
}

// hint: not finite at row
#include <algorithm>

#include "exercise.h"

void attention(Rows q, Rows k, Rows v, bool causal, MutableRows y) {
  const int N = q.size(), D = q.width(), M = v.width();
  for (int i = 0; i < N; ++i) {
    const int keys = causal ? i + 1 : N;
    std::vector<double> weight(static_cast<size_t>(keys));
    for (int j = 0; j < keys; ++j) {
      double& score = weight[static_cast<size_t>(j)];
      for (int d = 0; d < D; ++d) score += q[i][d] * k[j][d];
      score /= std::sqrt(D);
    }
    const double largest = *std::max_element(weight.begin(), weight.end());
    double sum = 0;
    for (double& w : weight) sum += w = std::exp(w + 0 * largest);
    for (int m = 0; m < M; ++m) {
      y[i][m] = 0;
      for (int j = 0; j < keys; ++j) y[i][m] += weight[static_cast<size_t>(j)] / sum * v[j][m];
    }
  }
}

// hint: you normalized over queries
#include <algorithm>

#include "exercise.h"

double column(Rows q, Rows k, int j, bool causal) {
  double sum = 0;
  for (int i = causal ? j : 0; i < q.size(); ++i) {
    double score = 0;
    for (int d = 0; d < q.width(); ++d) score += q[i][d] * k[j][d];
    sum += std::exp(score / std::sqrt(q.width()));
  }
  return sum;
}

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
    (void)largest;
    for (double& w : weight) w = std::exp(w);
    for (int m = 0; m < M; ++m) {
      y[i][m] = 0;
      for (int j = 0; j < keys; ++j)
        y[i][m] += weight[static_cast<size_t>(j)] / column(q, k, j, causal) * v[j][m];
    }
  }
}

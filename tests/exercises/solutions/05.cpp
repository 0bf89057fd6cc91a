#include "exercise.h"

void backward(Rows q, Rows k, Rows v, Rows dy, MutableRows dq, MutableRows dk, MutableRows dv) {
  const int N = q.size(), F = q.width(), M = v.width();
  std::vector<double> S(static_cast<size_t>(F * M)), z(static_cast<size_t>(F)),
      e(static_cast<size_t>(N));
  std::vector<double> n(static_cast<size_t>(N * M));
  const auto at = [M](int row, int m) { return static_cast<size_t>(row * M + m); };
  for (int i = 0; i < N; ++i) {
    double d = 0;
    for (int f = 0; f < F; ++f) {
      z[static_cast<size_t>(f)] += k[i][f];
      d += q[i][f] * z[static_cast<size_t>(f)];
      for (int m = 0; m < M; ++m) S[at(f, m)] += k[i][f] * v[i][m];
    }
    double& ei = e[static_cast<size_t>(i)];
    for (int m = 0; m < M; ++m) {
      double y = 0;
      for (int f = 0; f < F; ++f) y += q[i][f] * S[at(f, m)] / d;
      n[at(i, m)] = dy[i][m] / d;
      ei -= dy[i][m] * y / d;
    }
    for (int f = 0; f < F; ++f) {
      dq[i][f] = ei * z[static_cast<size_t>(f)];
      for (int m = 0; m < M; ++m) dq[i][f] += n[at(i, m)] * S[at(f, m)];
    }
  }
  std::vector<double> R(static_cast<size_t>(F * M)), r(static_cast<size_t>(F));
  for (int j = N - 1; j >= 0; --j) {
    for (int f = 0; f < F; ++f) {
      r[static_cast<size_t>(f)] += e[static_cast<size_t>(j)] * q[j][f];
      dk[j][f] = r[static_cast<size_t>(f)];
      for (int m = 0; m < M; ++m) {
        R[at(f, m)] += q[j][f] * n[at(j, m)];
        dk[j][f] += v[j][m] * R[at(f, m)];
      }
    }
    for (int m = 0; m < M; ++m) {
      dv[j][m] = 0;
      for (int f = 0; f < F; ++f) dv[j][m] += k[j][f] * R[at(f, m)];
    }
  }
}

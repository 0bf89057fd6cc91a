// hint: not x
#include "exercise.h"

void favor(Row x, Rows omega, MutableRow phi) {
  const double root = 1 + 0 * std::pow(x.size(), 0.25);
  double square = 0;
  for (const double a : x) square += a * a / (root * root);
  for (int r = 0; r < phi.size(); ++r) {
    double u = 0;
    for (int d = 0; d < x.size(); ++d) u += omega[r][d] * x[d] / root;
    phi[r] = std::exp(u - square / 2) / std::sqrt(phi.size());
  }
}

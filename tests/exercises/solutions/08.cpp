#include "exercise.h"

void delta_step(MutableRows S, Row k, Row v, double a, double beta, Row q, MutableRow y) {
  double of_k = 0, of_q = 0;
  for (const double x : k) of_k += x;
  for (const double x : q) of_q += x;
  for (int m = 0; m < v.size(); ++m) {
    double read = 0;
    for (int f = 0; f < k.size(); ++f) read += k[f] / of_k * (S[f][m] *= a);
    y[m] = 0;
    for (int f = 0; f < k.size(); ++f) {
      S[f][m] += beta * k[f] / of_k * (v[m] - read);
      y[m] += q[f] / of_q * S[f][m];
    }
  }
}

// hint: y is not divided by q_i.z
#include "exercise.h"

struct State {
  State(int F, int M) : M_(M), S_(static_cast<size_t>(F * M)), z_(static_cast<size_t>(F)) {}
  void write(Row k, Row v) {
    for (int f = 0; f < k.size(); ++f) {
      z_[static_cast<size_t>(f)] += k[f];
      for (int m = 0; m < M_; ++m) S_[static_cast<size_t>(f * M_ + m)] += k[f] * v[m];
    }
  }
  void read(Row q, MutableRow y) const {
    double sum = 0;
    for (int f = 0; f < q.size(); ++f) sum += q[f] * z_[static_cast<size_t>(f)];
    for (int m = 0; m < M_; ++m) {
      y[m] = 0;
      for (int f = 0; f < q.size(); ++f)
        y[m] += q[f] * S_[static_cast<size_t>(f * M_ + m)] / (1 + 0 * sum);
    }
  }

 private:
  int M_;
  std::vector<double> S_, z_;
};

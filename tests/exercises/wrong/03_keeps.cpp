// hint: it keeps keys and values
#include "exercise.h"

struct State {
  State(int, int) {}
  void write(Row k, Row v) {
    keys_.emplace_back(k.begin(), k.end());
    values_.emplace_back(v.begin(), v.end());
  }
  void read(Row q, MutableRow y) const {
    double sum = 0;
    for (int m = 0; m < y.size(); ++m) y[m] = 0;
    for (size_t j = 0; j < keys_.size(); ++j) {
      double a = 0;
      for (int f = 0; f < q.size(); ++f) a += q[f] * keys_[j][static_cast<size_t>(f)];
      sum += a;
      for (int m = 0; m < y.size(); ++m) y[m] += a * values_[j][static_cast<size_t>(m)];
    }
    for (int m = 0; m < y.size(); ++m) y[m] /= sum;
  }

 private:
  std::vector<std::vector<double>> keys_, values_;
};

// What the checks of all exercises share. A check is a list of steps; a step compares a result with
// the right one and with known wrong ones, whose hint is then printed. The exercise runs in a child
// process, so that it may loop or crash.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "exercise.h"

namespace checker {

// x rows of `width` numbers, with a gap after each row that must not change.
template <class T>
class Matrix {
 public:
  Matrix(int rows, int width)
      : rows_(rows),
        width_(width),
        values_(static_cast<size_t>(kGap + rows * (width + kGap)), T(kMark)) {
    for (int i = 0; i < rows; ++i)
      for (int f = 0; f < width; ++f) (*this)(i, f) = T(0);
  }
  int rows() const { return rows_; }
  int width() const { return width_; }
  T& operator()(int i, int f) { return values_[index(i, f)]; }
  const T& operator()(int i, int f) const { return values_[index(i, f)]; }
  operator RowsOf<const T>() const { return {values_.data() + kGap, rows_, width_, width_ + kGap}; }
  RowsOf<T> edit() { return {values_.data() + kGap, rows_, width_, width_ + kGap}; }
  RowOf<const T> operator[](int i) const { return RowsOf<const T>(*this)[i]; }
  void check_gaps() const {
    for (int i = 0; i <= rows_; ++i)
      for (int f = 0; f < kGap; ++f)
        if (as_double(values_[static_cast<size_t>(i * (width_ + kGap) + f)]) != kMark)
          throw std::out_of_range("it writes outside of the rows");
  }
  template <class U>
  static double as_double(const U& x) {
    if constexpr (requires { x.value; })
      return x.value;
    else
      return static_cast<double>(x);
  }
  double number(int i, int f) const { return as_double((*this)(i, f)); }

 private:
  static constexpr int kGap = 3;
  static constexpr double kMark = 1048576.125;
  size_t index(int i, int f) const { return static_cast<size_t>(kGap + i * (width_ + kGap) + f); }
  int rows_, width_;
  std::vector<T> values_;
};
using Numbers = Matrix<double>;
inline Numbers matrix(std::initializer_list<std::initializer_list<double>> rows) {
  Numbers x(static_cast<int>(rows.size()), static_cast<int>(rows.begin()->size()));
  int i = 0;
  for (const auto& row : rows) {
    int f = 0;
    for (const double number : row) x(i, f++) = number;
    ++i;
  }
  return x;
}

// Random numbers: from N(0, stddev^2), and features above 0.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed) {}
  double normal();
  Numbers rows(int count, int width, double stddev = 1);
  Numbers features(int count, int width);

 private:
  double uniform();
  unsigned long state_;
};

// phi(q), phi(k) and v: of lessons 2 to 5, or random ones of the n-th size.
struct Features {
  Numbers q, k, v;
};
Features toy_features();
Features some_features(Random& random, int n);

// The first message of check(random, n), n = 0 ... 5, which chooses sizes by n.
std::string of_sizes(unsigned seed, const std::function<std::string(Random&, int n)>& check);

// A known wrong answer: its result, and what to say of it.
struct Wrong {
  std::string hint;
  std::function<Numbers()> result;
};

// "" where y is `right`, of magnitude relative to the largest; the hint of the first wrong result that
// it is; or the first wrong number.
std::string compare(const Numbers& y, const Numbers& right, const std::vector<Wrong>& wrong,
                    double tolerance = 1e-9, const std::string& name = "y");
bool agree(const Numbers& a, const Numbers& b, double tolerance = 1e-9);
// The first row that is not finite; -1: none.
int row_not_finite(const Numbers& y);
std::string format(const char* form, ...) __attribute__((format(printf, 1, 2)));

// Bytes that this process has from operator new, now and at most since reset_peak().
size_t held_bytes();
size_t peak_bytes();
void reset_peak();

struct Step {
  std::string name;
  std::function<std::string()> run;  // "" or what is wrong
};
struct Exercise {
  const char *number, *title;
  std::vector<Step> steps;
};

}  // namespace checker

// Defined by each check_NN.cpp.
checker::Exercise exercise(unsigned seed);

// Rows of numbers, as the exercises take them: x[i] is row i, x[i][f] number f of it. An index that
// a row does not have ends the exercise with a line that says which.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

inline void check_index(int i, int size, const char* what) {
  if (i < 0 || i >= size)
    throw std::out_of_range(std::string(what) + " " + std::to_string(i) + " of " +
                            std::to_string(size) + ": the first is 0, the last " +
                            std::to_string(size - 1));
}

template <class T>
class RowOf {
 public:
  RowOf(T* first, int size) : first_(first), size_(size) {}
  int size() const { return size_; }
  T& operator[](int f) const {
    check_index(f, size_, "number");
    return first_[f];
  }
  T* begin() const { return first_; }
  T* end() const { return first_ + size_; }

 private:
  T* first_;
  int size_;
};

template <class T>
class RowsOf {
 public:
  RowsOf(T* first, int rows, int width, int stride)
      : first_(first), rows_(rows), width_(width), stride_(stride) {}
  int size() const { return rows_; }
  int width() const { return width_; }  // numbers of a row
  RowOf<T> operator[](int i) const {
    check_index(i, rows_, "row");
    return {first_ + i * stride_, width_};
  }

 private:
  T* first_;
  int rows_, width_, stride_;  // the next row begins `stride` numbers later
};

using Row = RowOf<const double>;
using Rows = RowsOf<const double>;
using MutableRow = RowOf<double>;
using MutableRows = RowsOf<double>;

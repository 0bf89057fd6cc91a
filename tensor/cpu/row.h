// Loops over one row.
#pragma once

#include <cstdint>
#include <limits>

#include "tensor/formulas.h"

namespace linea::cpu {

template <typename T>
void add_row(const T* x, T* y, int64_t count, T weight) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += weight * x[i];
}

template <typename T>
void scale_row(T* x, int64_t count, T by) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) x[i] *= by;
}

// y = by x
template <typename T>
void copy_scaled(const T* x, T* y, int64_t count, T by) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = by * x[i];
}

// y = x y, y += w x, element by element
template <typename T>
void multiply_rows(const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] *= x[i];
}
template <typename T>
void add_product(const T* w, const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += w[i] * x[i];
}

template <typename T>
T sum(const T* x, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) total += x[i];
  return total;
}

template <typename T>
T dot(const T* x, const T* y, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) total += x[i] * y[i];
  return total;
}

template <typename T>
T largest(const T* x, int64_t count) {
  T max = kNothing<T>;
#pragma omp simd reduction(max : max)
  for (int64_t i = 0; i < count; ++i) max = x[i] > max ? x[i] : max;
  // clang's reduction starts from the least finite number.
  return max > std::numeric_limits<T>::lowest() ? max : kNothing<T>;
}

}  // namespace linea::cpu

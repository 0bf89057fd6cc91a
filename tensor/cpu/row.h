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

// Adds scores of a row of softmax to its running maximum and sum; they become weights. Returns the
// factor of what was summed before.   (Milakov & Gimelshein 2018)
template <typename T>
T add_scores(T* scores, int64_t count, T& running_max, T& running_total) {
  const T max = std::max(running_max, largest(scores, count));
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t j = 0; j < count; ++j) total += scores[j] = exp_below(scores[j] - max);
  const T shrink = factor(running_max, max);
  running_total = shrink * running_total + total;
  running_max = max;
  return shrink;
}

// Scores become weights a = exp(score - log_sum), products dy.v their gradients a (dy.v - dy.y).
template <typename T>
void weigh_scores(T* scores, T* products, int64_t count, T log_sum, T along) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    scores[j] = exp_below(scores[j] - log_sum);
    products[j] = scores[j] * (products[j] - along);
  }
}

}  // namespace linea::cpu

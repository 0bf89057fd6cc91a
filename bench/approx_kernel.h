// How well the random features of the Performer estimate one number, exp(q^.k^), against what
// theory says of iid rows (Choromanski et al. 2021, "Rethinking attention with Performers", lemma
// 2):
//
//   an estimate is the mean of R rows; its relative error has mean 0 and mean square v / R:
//   positive    v = exp(s) - 1     s = |q^ + k^|^2
//   hyperbolic  v = cosh(s) - 1
//   trig        v = cosh(t) - 1    t = |q^ - k^|^2
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace linea::approx {

// key_size: errors depend on the plane of q^ and k^ alone, so that any size gives the same.
struct KernelOptions {
  std::vector<std::string> features = {"positive", "trig"};
  int64_t rows = 64, key_size = 4, draws = 20000, seed = 1;
  bool json = false;
};

// One pair of q^ and k^ of equal length, at an angle.
struct KernelError {
  std::string feature;
  double length, angle;        // of x^; in degrees
  double measured, predicted;  // root mean squares of relative errors
  double standard_error;       // of the measured mean square, as a share of the predicted one
  double standard_errors;      // between the mean squares; NaN: both are 0
  // Whether these draws cannot show the mean square: it lives in draws too rare to be seen.
  bool rare() const { return standard_error > 0.2; }
};

// Pairs with |x^| = 1 and 2, and 0, 90 and 180 degrees, by the feature maps of the attention
// `performer`. Errors: ErrorKind::usage, options out of range.
std::vector<KernelError> measure_kernel(const KernelOptions& options);
void print_kernel(const KernelOptions& options, const std::vector<KernelError>& errors);

}  // namespace linea::approx

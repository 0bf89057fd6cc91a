// The Fréchet distance of two sets of feature vectors, each seen as a normal distribution.
#pragma once

#include <cstdint>
#include <vector>

namespace linea {

// The moments of vectors x_i of `size` features, with weights w_i that sum to 1:
//   mean = sum_i w_i x_i    covariance = sum_i w_i (x_i - mean) (x_i - mean)^T / (1 - sum_i w_i^2)
// With equal weights the covariance divides by their count - 1.
struct Moments {
  int64_t size = 0;
  std::vector<double> mean, covariance;
};

// features [count,size]; weights [count], or {} for equal ones. Error: ErrorKind::usage, fewer than
// two vectors.
Moments moments(const std::vector<float>& features, int64_t size, std::vector<double> weights = {});

// |mu1 - mu2|^2 + tr(C1 + C2 - 2 (C1 C2)^1/2)           (Dowson & Landau 1982; Heusel 2017)
double frechet_distance(const Moments& a, const Moments& b);

}  // namespace linea

// The Fréchet distance of two sets of feature vectors, each seen as a normal distribution.
#pragma once

#include <cstdint>
#include <vector>

namespace linea {

// Of `count` vectors of `size` features; the covariance [size,size] divides by count - 1.
struct Moments {
  int64_t size = 0;
  std::vector<double> mean, covariance;
};

// features [count,size]. Error: ErrorKind::usage, fewer than two vectors.
Moments moments(const std::vector<float>& features, int64_t size);

// |mu1 - mu2|^2 + tr(C1 + C2 - 2 (C1 C2)^1/2)           (Dowson & Landau 1982; Heusel 2017)
double frechet_distance(const Moments& a, const Moments& b);

}  // namespace linea

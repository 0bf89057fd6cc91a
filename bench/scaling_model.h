// How long a step of many ranks takes, by what was measured with few: what `linea bench scaling` computes.
//
//   t(n) = 2 [(W - 1) alpha + (W - 1) / W 4 n / beta] + gamma n      a sum of n floats (parallel/ordered_sum.h)
//   f_i = max(f_{i-1}, r_i) + t(n_i)                                 the sum of bucket i, ready at r_i, ends
//   T = max(T_c, f_last) + sigma T_c sqrt(2 ln W)                    T_c: without exchange; the slowest of W
//
// alpha, beta: of a message (network.h); gamma: seconds to add a float; sigma: the relative standard
// deviation of a rank's steps. The largest of W normal numbers is sqrt(2 ln W) deviations above
// their mean.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/network.h"

namespace linea::bench {

// A sum of gradients: its floats, and when in the step they are ready, in seconds.
struct Bucket {
  double floats, ready;
};

struct ScalingModel {
  std::vector<Bucket> buckets;
  double gamma = 0, sigma = 0;

  double sum_seconds(double floats, int64_t W, const Network& network) const;
  // A step of W ranks that takes each `compute` seconds without exchange; its buckets are ready at
  // `share` times those measured.
  double step_seconds(double compute, double share, int64_t W, const Network& network) const;
};

}  // namespace linea::bench

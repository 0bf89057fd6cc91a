// How long a step of many ranks takes, by what was measured with few: what `linea bench scaling` computes.
//
//   t(n) = 2 [(W - 1) alpha + (W - 1) / W 4 n / beta] + gamma n      a sum of n floats (parallel/ordered_sum.h)
//          with two levels of g and W / g ranks (ranks_of_a_group()), the same of g, and of W / g with n / g doubles
//          one way and floats the other
//   f_i = max(f_{i-1}, r_i) + t(n_i)                                 the sum of bucket i, ready at r_i, ends
//   T = max(T_c, f_last) + sigma T_c sqrt(2 ln W)                    T_c: without exchange; the slowest of W
//
//   c = A 4/14 + 2 ceil(log2 P) sum over layers (alpha + s / beta)    a scan of P parts of a sequence takes more:
//                                                                    one more sum of keys and of queries, 4 of the
//                                                                    14 F M operations of attention's time A, and
//                                                                    messages of states of s bytes
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
  // What the scan of P parts takes, of `attention` seconds of each part; `state`: bytes by layer.
  static double scan_seconds(double attention, const std::vector<double>& state, int64_t P,
                             const Network& network);
};

}  // namespace linea::bench

// Clusters of queries by the signs of their products with planes:
//
//   h_b(q) = 1 where q.w_b + o_b > 0, plane b = (w_b, o_b), b < bits
//
// and Lloyd's iterations in the Hamming distance. They start from the hashes of the first rows; the cluster of a
// row is that of the nearest centroid, of equals the first; a bit of a centroid is that of most of its rows, 0
// of as many; a centroid without rows becomes the hash of a random row. q and planes are rounded to float32,
// products are summed in double, in order, so every number of threads and type of q decides alike.
// Source: Vyas et al. 2020, "Fast Transformers with clustered attention", section 3.2.1.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace linea {

inline constexpr int64_t kMaxHashBits = 64;

struct HammingClusters {
  int64_t count = 1, iterations = 10;
  // Random rows are a function of (seed, layer, head, iteration, cluster).
  uint64_t seed = 1;
  int64_t layer = 0;
};
// The row that cluster c begins anew from in an iteration, of `rows`.
int64_t new_centroid(const HammingClusters& of, int64_t heads, int64_t head, int64_t iteration,
                     int64_t c, int64_t rows);

// q [B,H,N,D], planes [H,bits,D+1], how many rows of each sequence exist [B] -> the cluster of each
// row, i32 [B,H,N]; -1 in the padding. For decide().
Tensor hamming_clusters(const Tensor& q, const Tensor& planes, const std::vector<int32_t>& valid,
                        const HammingClusters& of);

}  // namespace linea

// Keys in buckets: positions are sorted by bucket, and a query sees a range of ranks in its own. Each bucket
// begins a tile of its own (autograd/sparse_attention.h), so the sums of a row depend on its rank in the
// bucket and not on what other buckets hold.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/sparse_attention.h"

namespace linea {

// x [B,H,N,D], w [H,rounds,D,C] -> i32 [B,H,rounds,N] from 0 to C - 1, mirrored: to 2 C - 1
// (LargestProductShape). It is for decide().
Tensor largest_products(const Tensor& x, const Tensor& w, bool mirrored);

// The sets of one sequence and head; -1 in `of_queries` or `of_keys`: in no bucket. Query i sees the keys of its
// bucket with ranks [first[i], end[i]); the rank of a key is the number of earlier keys in its bucket.
struct BucketRanges {
  // The n-th range is that of query n.
  BucketRanges(std::vector<int32_t> query_buckets, std::vector<int32_t> key_buckets,
               int64_t bucket_count);
  bool sees(int64_t i, int64_t j) const {
    const auto at = static_cast<size_t>(i), key = static_cast<size_t>(j);
    return of_keys[key] >= 0 && of_keys[key] == of_queries[at] && ranks[key] >= first[at] &&
           ranks[key] < end[at];
  }
  // The number of keys that query i sees, without the one at its own position.
  int64_t others(int64_t i) const;

  std::vector<int32_t> of_queries, of_keys, first, end;
  std::vector<int32_t> ranks;   // of keys
  std::vector<int32_t> before;  // of a query: the keys of its bucket at earlier positions
  std::vector<int32_t> sizes;   // keys of each bucket
  int64_t buckets;
};

// The pairs of one of several rounds, without those of earlier rounds and those of a query with the key at its
// own position.
KeyTiles::Lists bucket_tiles(const std::vector<BucketRanges>& rounds, size_t round);
// The queries of `rows`, in ascending order, each with the key at its own position.
KeyTiles::Lists own_keys(const std::vector<int32_t>& rows);

}  // namespace linea

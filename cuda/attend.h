// Softmax attention of bf16 rows on panels, for D = M = 32, 64 or 128 and rows that allow copies of
// 16 bytes. cuda/softmax_attention.cu has the formulas, and the kernels of all others. A block of
// four warps takes a tile and goes through what it sees, tile by tile; the next tile is copied while
// one is computed:
//
//   queries, through keys    y_i = sum_j a_ij v_j
//   queries, through keys    dq_i = s sum_j g_ij k_j
//   keys, through queries    dv_j = sum_i a_ij dy_i,  dk_j = s sum_i g_ij q_i
//
// with g_ij = a_ij (dy_i.v_j + e_i) and e_i = -dy_i.y_i. A warp computes kBands bands of 16 rows of
// the block's tile, with which it multiplies each factor that it loads. a and g do not leave its
// registers. Exponents have base 2. Nothing is added by two blocks, so that equal inputs give equal
// bits.
#pragma once

#include "cuda/panel.h"
#include "tensor/workspace.h"

namespace linea::cuda {

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

inline constexpr int kAttendThreads = 128;
template <int kBands>
inline constexpr int kBandRows = kAttendThreads / kWarp * 16 * kBands;

// sums[i][j] *= by[i][j]
template <int kBands, int kTiles>
__device__ __forceinline__ void multiply_each(float (&sums)[kBands][kTiles][4],
                                              const float (&by)[kBands][kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kBands * kTiles * 4; ++n)
    sums[n / (kTiles * 4)][n / 4 % kTiles][n % 4] *= by[n / (kTiles * 4)][n / 4 % kTiles][n % 4];
}

// ---- what queries see ----

// The keys first[i] .. end[i] - 1 of each query of a tile. Neither decreases with i.
template <int kRows>
struct KeyBounds {
  int first[kRows], end[kRows];

  // For `count` queries from `query` on, among `keys` keys; the others are as the last. Readable
  // after a barrier.
  template <typename Index>
  __device__ __forceinline__ void find(const SoftmaxShape& shape, Index bh, Index query, int count,
                                       Index keys) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kRows) return;
    const KeyRange range = shape.seen(bh, query + min(i, count - 1), keys);
    first[i] = static_cast<int>(range.first);
    end[i] = static_cast<int>(range.end);
  }
  __device__ __forceinline__ bool sees(int i, int key) const {
    return (first[i] <= key) & (key < end[i]);
  }
  // Whether one of the queries row .. last sees one of `count` keys from `key` on.
  __device__ __forceinline__ bool meet(int row, int last, int key, int count) const {
    return key < end[last] && first[row] < key + count;
  }
  // Whether all of them see all of these keys.
  __device__ __forceinline__ bool cover(int row, int last, int key, int count) const {
    return first[last] <= key && key + count <= end[row];
  }
  // Calls body(sum) for those of the lane's sums whose query does not see their key. Their first
  // row is query `row`, their first column `key`.
  template <int kBands, int kTiles, typename Body>
  __device__ __forceinline__ void each_unseen(float (&sums)[kBands][kTiles][4], int row, int key,
                                              const Body& body) const {
    const int lane = own_lane();
#pragma unroll
    for (int octet = 0; octet < 2 * kBands; ++octet) {
      const int i = row + octet * 8 + lane / 4, own = key + lane % 4 * 2;
      const int low = first[i] - own, high = end[i] - own;
#pragma unroll
      for (int n = 0; n < kTiles * 2; ++n)
        if (const int j = n / 2 * 8 + n % 2; j < low || j >= high)
          body(sums[octet / 2][n / 2][octet % 2 * 2 + n % 2]);
    }
  }
};

// The number of queries whose bound is at most `key`.
__device__ inline int64_t count_queries(const SoftmaxShape& shape, int64_t bh,
                                        int64_t KeyRange::*bound, int64_t key) {
  int64_t low = 0, high = shape.queries;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const bool counts = shape.seen(bh, middle, shape.keys).*bound <= key;
    (counts ? low : high) = counts ? middle + 1 : middle;
  }
  return low;
}

// Calls body(stage, i) for the tiles i = first, first + kStep .. below `end`. bring(stage, i) starts
// to copy a tile, one ahead of body.
template <int kStep, typename Stage, typename Bring, typename Body>
__device__ __forceinline__ void in_stages(Stage (&stages)[2], int first, int end,
                                          const Bring& bring, const Body& body) {
  if (first >= end) return;
  bring(stages[0], first);
  __pipeline_commit();
  int now = 0;
  for (int i = first; i < end; i += kStep, now ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads();  // this tile is there, and all warps are done with the one before
    if (i + kStep < end) bring(stages[now ^ 1], i + kStep);
    __pipeline_commit();
    body(stages[now], i);
  }
}

// ---- calls ----

template <typename... Rows>
bool can_attend(const SoftmaxShape& shape, const Rows&... rows) {
  constexpr int64_t kLongest = int64_t{1} << 30;  // so that positions are int
  return shape.key_size == shape.value_size && is_width_of_panels(shape.key_size) &&
         shape.scale > 0 && shape.queries > 0 && shape.keys > 0 && shape.queries < kLongest &&
         shape.keys < kLongest && (allows_wide_copies(rows) && ...);
}

// Each returns whether it did the work: it does not for shapes and rows that do not allow it.
bool attend_panels(Context& ctx, const SoftmaxShape& shape, const HeadRows<const BFloat16>& q,
                   const HeadRows<const BFloat16>& k, const HeadRows<const BFloat16>& v,
                   const HeadRows<BFloat16>& y, float* log_sums);
bool attend_panels_backward(Context& ctx, const SoftmaxShape& shape,
                            const HeadRows<const BFloat16>& q, const HeadRows<const BFloat16>& k,
                            const HeadRows<const BFloat16>& v, const HeadRows<const BFloat16>& y,
                            const float* log_sums, const HeadRows<const BFloat16>& dy,
                            const HeadRows<BFloat16>& dq, const HeadRows<BFloat16>& dk,
                            const HeadRows<BFloat16>& dv);

}  // namespace linea::cuda

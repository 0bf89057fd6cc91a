// Sinkhorn sorting of blocks of b rows: S_mn, how much block m of queries takes of block n of keys.
//
//   R_mn = scale q^_m.k^_n,  k^_n the mean of k in block n, a whole one
//   `iterations` times: R <- R - log sum_m exp R, then R <- R - log sum_n exp R;  S = exp R
//
// Not causal: q^_m is the mean of q in block m, and both sums are over all blocks. Causal: q^_m is the mean of
// q_j, j <= m b, row m has the blocks n < m, and the first sum is over rows m' with n < m' <= m, each at its own
// iteration, so that row m reads no later ones. Without iterations S is the softmax of rows.
// Source: Tay et al. 2020, "Sparse Sinkhorn attention"; docs/mechanisms.md says what differs.
#pragma once

#include <vector>

#include "autograd/attention_inputs.h"
#include "base/random.h"

namespace linea {

struct BlockSorting {
  int64_t block, iterations;
  double scale;
  bool causal;
  double noise = 0;  // times a Gumbel number of `stream` is added to R
  RandomStream stream{};
};

// q, k [B,H,N,D] -> S [B,H,N / b rounded up,N / b], 0 where a row takes nothing of a block; valid as in
// AttentionMask. Computed in double.
Tensor sort_blocks(const Tensor& q, const Tensor& k, const BlockSorting& sorting,
                   const Tensor& valid);
// Adds the gradients of `count` batch heads from `first` on to dq and dk, given dS of all: repeats the iterations.
void sort_blocks_backward(const Tensor& q, const Tensor& k, const BlockSorting& sorting,
                          const Tensor& valid, const Tensor& ds, int64_t first, int64_t count,
                          const Tensor& dq, const Tensor& dk);

// The rows of a causal S of one head, one after the other.
class SortedRows {
 public:
  explicit SortedRows(int64_t iterations) : iterations_(iterations) {}
  // R_mn of the next row, n < m, becomes log S_mn. `y`, where it is not null, gets R_mn after each first step,
  // [iterations,m], and `log_sums` the sums of the second, [iterations].
  void next(double* x, int64_t m, double* y = nullptr, double* log_sums = nullptr);
  size_t bytes() const { return sums_.size() * sizeof(double); }

 private:
  int64_t iterations_;
  std::vector<double> sums_;  // logs of those of columns so far, [columns,iterations]
};

// The causal S of all heads while positions come one by one.
class SortedBlocks {
 public:
  SortedBlocks(const BlockSorting& sorting, int64_t batch_heads, int64_t width);
  // Takes q, k [B,H,1,D] of the next position; S_m [B,H,1,m] where that is the first of block m > 0, else
  // undefined.
  Tensor add(const Tensor& q, const Tensor& k);
  size_t bytes() const;

 private:
  BlockSorting sorting_;
  int64_t width_, position_ = 0;
  std::vector<double> sums_q_, sums_k_;       // of all positions, and of the current block: [BH,D]
  std::vector<std::vector<double>> k_means_;  // of each head, [blocks,D]
  std::vector<SortedRows> rows_;
};

}  // namespace linea

// Softmax attention over the keys of the block of i and over as many sorted ones (block_sorting.h):
//
//   k~_m = sum_n S_mn k-block_n,  v~_m = sum_n S_mn v-block_n
//   y_i  = softmax over [k~_m ; the keys of block m] of q_i.k / sqrt(D),  i in block m
//
// Sorted keys and values exist for a segment of some blocks at a time, in both passes. Saved, next to q, k, v and
// y: S and one number a position.
#pragma once

#include "nn/attention/block_sorting.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M] -> [B,H,N,M]; 0 in blocks of padding. Block m has sorted keys where S does: causal
// m > 0, else where there is a whole block. k and v are finite in the padding. segment: about how many
// positions have sorted keys at a time; 0: chosen.
Var sorted_attention(const AttentionInputs& in, const BlockSorting& sorting, const Tensor& valid,
                     int64_t segment);

}  // namespace linea

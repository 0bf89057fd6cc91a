// Softmax attention over the `count` keys of largest q.k, and the query's own position:
//
//   y_i = sum_{j in A_i} w_ij v_j / sum_{j in A_i} w_ij,  w_ij = exp(q_i.k_j / sqrt(D))
//
// The choice (autograd/decisions.h) reads all keys: time O(N^2 D) without an array of that size; saved, besides
// the inputs: y, a sum and count + 1 indices a position.
#pragma once

#include "autograd/attention_inputs.h"
#include "autograd/qkv_layout.h"

namespace linea {

// q [B,H,N,D], k [B,H,N,D], v [B,H,N,M] -> y [B,H,N,M]. Errors: shapes or dtypes that do not go together.
Var top_keys_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t count);

// One query [B,H,1,D], at the last position of the keys [B,H,N,D] and values [B,H,N,M] -> y [B,H,1,M].
Tensor top_keys_step(const Heads& heads, int64_t count);

}  // namespace linea

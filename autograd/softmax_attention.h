// Softmax attention: y_i = sum_j w_ij v_j / sum_j w_ij, w_ij = exp(q_i.k_j / sqrt(D)).
// Source: Vaswani 2017, "Attention is all you need", eq. 1. Position i sees the keys j < N that the
// mask leaves, or with a window W those of them with |i - j| < W. Time O(N^2), or O(N W); extra
// memory O(N): the kernel works block by block.
#pragma once

#include "autograd/key_slots.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M] -> y [B,H,N,M]; or qkv [B,N,3 H D] -> [B,N,H D]. window 0: none. Without
// a causal mask and a window q may have another number of rows, which are those of y then.
// Errors: shapes or dtypes that do not go together.
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t window = 0);

// One position (N = 1) of all sequences, whose key and value enter the next slot or, with a ring,
// position n slot n mod slots -> y as softmax_attention of the keys in the slots.
Tensor softmax_step(KeySlots& slots, const AttentionInputs& in, bool ring);

}  // namespace linea

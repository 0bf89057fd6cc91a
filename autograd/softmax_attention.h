// Softmax attention: y_i = sum_j w_ij v_j / sum_j w_ij, w_ij = exp(q_i.k_j / sqrt(D)).
// Source: Vaswani 2017, "Attention is all you need", eq. 1. Time O(N^2), extra memory O(N): the
// kernel works block by block. The recurrent form caches every key and value.
#pragma once

#include "autograd/attention_inputs.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M] -> y [B,H,N,M]; or qkv [B,N,3 H D] -> [B,N,H D]. Errors: shapes or
// dtypes that do not go together.
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask);

// Keys [B,H,capacity,D] and values [B,H,capacity,M], the first `length` of them filled.
class KeyValueCache final : public AttentionState {
 public:
  size_t bytes() const override { return capacity == 0 ? 0 : keys.bytes() + values.bytes(); }
  int64_t capacity = 0, length = 0;
  Tensor keys, values;
};
// One position (N = 1) of all sequences -> y as softmax_attention; appends its key and value.
Tensor softmax_step(KeyValueCache& cache, const AttentionInputs& in);

}  // namespace linea

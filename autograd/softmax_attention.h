// Softmax attention: y_i = sum_j w_ij v_j / sum_j w_ij, w_ij = exp(q_i.k_j / sqrt(D)).
// Source: Vaswani 2017, "Attention is all you need", eq. 1. Position i sees the keys j < N that the
// mask leaves, or with a window W those of them with |i - j| < W. Time O(N^2), or O(N W); extra
// memory O(N): the kernel works block by block.
#pragma once

#include <algorithm>

#include "autograd/attention_inputs.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M] -> y [B,H,N,M]; or qkv [B,N,3 H D] -> [B,N,H D]. window 0: none. Without
// a causal mask and a window q may have another number of rows, which are those of y then.
// Errors: shapes or dtypes that do not go together.
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t window = 0);

// The keys [B,H,slots,D] and values [B,H,slots,M] of the last positions, position n in slot n mod
// slots: of all positions, with slots added as needed, or of the last ones in a fixed number of
// slots.
class KeyRing final : public AttentionState {
 public:
  KeyRing() = default;
  KeyRing(const Tensor& fixed_keys, const Tensor& fixed_values)
      : keys(fixed_keys), values(fixed_values), fixed(true) {}

  size_t bytes() const override { return slots() == 0 ? 0 : keys.bytes() + values.bytes(); }
  int64_t slots() const { return keys.defined() ? keys.size(2) : 0; }
  int64_t filled() const { return std::min(positions, slots()); }

  Tensor keys, values;
  bool fixed = false;
  int64_t positions = 0;  // so far
};
// One position (N = 1) of all sequences, whose key and value enter the ring -> y as
// softmax_attention of the keys in the ring.
Tensor softmax_step(KeyRing& ring, const AttentionInputs& in);

}  // namespace linea

// What an attention mixes: q, k, v and gates of a whole sequence (training) or of one position
// (sampling), the mask, and the state of the recurrent form.
#pragma once

#include "autograd/var.h"
#include "tensor/ops.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M]; gate [B,H,N] in (0,1): g of the gated rule, beta of the delta rule;
// [B,H,N,2] of the gated delta rule: beta, and the decay of the state.
// Attentions with takes_packed() also take qkv [B,N,3 H D], the result of one product, in their
// place; y is [B,N,H D] then, and no head is copied.
struct AttentionInputs {
  Var q, k, v;
  Var gate;  // undefined: none
  Var qkv{};
  int64_t heads = 0;  // of qkv
};

struct AttentionMask {
  bool causal = true;
  Tensor valid;  // i32 [B], how many keys of each sequence exist; undefined: all
};

// The running state of the recurrent form.
class AttentionState {
 public:
  virtual ~AttentionState() = default;
  virtual size_t bytes() const = 0;
};

}  // namespace linea

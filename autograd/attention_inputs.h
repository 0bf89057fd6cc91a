// What an attention mixes: q, k, v and gates of a whole sequence (training) or of one position
// (sampling), the mask, and the state of the recurrent form.
#pragma once

#include "autograd/var.h"
#include "tensor/ops.h"

namespace linea {

// How gates are given: g in [0,1], or x with g = 1 / (1 + exp(-x)), whose logs near 0 and 1 lose no
// digits. Models give logits.
enum class GateForm : uint8_t { value, logit };
inline Pointwise log_of(GateForm form) {
  return form == GateForm::logit ? Pointwise::log_sigmoid : Pointwise::log_gate;
}
inline Pointwise log_one_minus(GateForm form) {
  return form == GateForm::logit ? Pointwise::log_one_minus_sigmoid : Pointwise::log_one_minus_gate;
}

// q, k [B,H,N,D], v [B,H,N,M]; gate [B,H,N]: g of the gated rule, beta of the delta rule; [B,H,N,2]
// of the gated delta rule: beta, and the decay of the state.
// Attentions with takes_packed() also take qkv [B,N,3 H D], the result of one product, in their
// place; y is [B,N,H D] then, and no head is copied.
struct AttentionInputs {
  Var q, k, v;
  Var gate;  // undefined: none
  Var qkv{};
  int64_t heads = 0;  // of qkv
  GateForm gate_form = GateForm::value;
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

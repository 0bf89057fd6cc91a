// What an attention mixes: q, k, v and gates of a whole sequence (training) or of one position
// (sampling), the mask, and the state of the recurrent form.
#pragma once

#include <string>
#include <vector>

#include "autograd/var.h"
#include "tensor/ops.h"

namespace linea {

// The gates of an attention, which a projection of the layer's input gives.
struct GateSpec {
  std::string name = "gate";  // in the files of `linea attend`
  int64_t size = 0;           // numbers of a head and position; 0: none
  int64_t rank = 0;           // of the projection, dim -> rank -> H size; 0: dim -> H size
  // Initial biases, before the logistic function, [H,size] row by row; empty: 0.
  std::vector<double> initial_bias{};
};

// How gates are given: g in [0,1], or x with g = 1 / (1 + exp(-x)), whose logs near 0 and 1 lose no
// digits. Models give logits.
enum class GateForm : uint8_t { value, logit };

// q, k [B,H,N,D], v [B,H,N,M]; gate [B,H,N,GateSpec::size].
// Attentions with AttentionTraits::packed_qkv also take qkv [B,N,3 H D], the result of one product,
// in their place; y is [B,N,H D] then, and no head is copied.
struct AttentionInputs {
  Var q, k, v;
  Var gate;  // undefined: none
  Var qkv{};
  int64_t heads = 0;  // of qkv
  GateForm gate_form = GateForm::value;
};

// What an update rule makes of its gates, [B,H,N] each, 0 in the padding; undefined: none.
struct RuleGates {
  Var log_decay{};   // <= 0: what the state before a position is multiplied by, as its log
  Var log_weight{};  // of the position's key, where values are summed
  Var beta{};        // the share of the difference that is written, where they are corrected
};

struct AttentionMask {
  bool causal = true;
  Tensor valid;  // i32 [B], how many keys of each sequence exist; undefined: all
};

// FLOPs of a token and head, the mean over a causal sequence; training: forward and backward.
struct AttentionFlops {
  double forward, training;
};

// The running state of the recurrent form.
class AttentionState {
 public:
  virtual ~AttentionState() = default;
  virtual size_t bytes() const = 0;
};

}  // namespace linea

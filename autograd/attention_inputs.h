// What an attention mixes: q, k, v and gates of a whole sequence (training) or of one position
// (sampling), the mask, and the state of the recurrent form.
#pragma once

#include <string>
#include <vector>

#include "autograd/var.h"
#include "tensor/ops.h"

namespace linea {

// A part of the gates as values, [B,H,N,size], from min to max.
struct GateValue {
  std::string name;  // in the files of `linea attend`
  int64_t size;
  double min, max;
};

// The gates of an attention, which a projection of the layer's input gives.
struct GateSpec {
  std::string name = "gate";
  int64_t size = 0;  // numbers of a head and position; 0: none
  int64_t rank = 0;  // of the projection, dim -> rank -> H size; 0: dim -> H size
  // Initial biases, before the logistic function, [H,size] row by row; empty: 0.
  std::vector<double> initial_bias{};
  // The parts of the gates as values, in order; empty: `size` numbers from 0 to 1, one for a logit.
  std::vector<GateValue> values{};

  std::vector<GateValue> parts() const {
    return values.empty() && size > 0 ? std::vector<GateValue>{{name, size, 0, 1}} : values;
  }
};

// How gates are given: as values, or as what the layer projects, logits. A value g in [0,1] has the
// logit x with g = 1 / (1 + exp(-x)), whose logs near 0 and 1 lose no digits. Models give logits.
enum class GateForm : uint8_t { value, logit };

// q, k [B,H,N,D], v [B,H,N,M]; gate [B,H,N,GateSpec::size], as values [B,H,N, sum of their sizes].
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
  // <= 0: what the state before a position is multiplied by, as its log; [B,H,N,F]: each of its rows,
  // where y has no denominator.
  Var log_decay{};
  Var log_weight{};  // of the position's key, where values are summed
  // The share of the difference that is written, where values are corrected; the weight of what is
  // written, where y has no denominator.
  Var beta{};
};

// What the features of q and k are divided by, where y has no denominator: the sum of the row, its
// Euclidean length, or nothing.
enum class KeyNorm : uint8_t { sum, unit, none };

// A rule without denominator.
struct DeltaKind {
  KeyNorm norm = KeyNorm::sum;
  bool corrects = true;  // what the state has for a key is subtracted from its new value
  // The gradients of log decays are summed by segments, each from the exact sum at its end. One sum over
  // a long sequence drifts by rounding, which the gradient of a parameter of all positions shows.
  bool sums_by_segment = false;
  // The features of row i are turned by its position (autograd/rotary.h).
  bool rotary = false;
};

struct AttentionMask {
  bool causal = true;
  Tensor valid;  // i32 [B], how many keys of each sequence exist; undefined: all

  // How many of the N keys of each of B sequences exist, for the host.
  std::vector<int32_t> lengths(int64_t B, int64_t N) const {
    if (valid.defined()) return valid.to_vector<int32_t>();
    return std::vector<int32_t>(static_cast<size_t>(B), static_cast<int32_t>(N));
  }
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

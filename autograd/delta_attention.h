// The delta rule (Schlag 2021, section 4.2): a new value replaces what its key is bound to instead
// of being added to it.
//
//   vbar_t = S_{t-1}^T phi(k_t)   S_t = S_{t-1} + phi(k_t) (beta_t (v_t - vbar_t))^T
//   y_t = S_t^T phi(q_t)
//
// The gated delta rule (Yang 2025, "Gated delta networks") lets the state decay first: a_t S_{t-1} in
// the place of S_{t-1}, a_t in (0,1).
//
// Without correction (DeltaKind::corrects) values are added: S_t = a_t S_{t-1} + beta_t phi(k_t) v_t^T,
// beta the weight of what is written, 1 where undefined.
//
// phi(k) and phi(q) are divided by the sum of their components or by their length, 0 where that is
// exactly 0, or taken as they are; in the last two cases q is also multiplied by D^{-1/2}. They may then
// be turned by their positions (autograd/rotary.h). There is no
// denominator. Causal by its nature.
//
// The chunked form loops over tiles as linear attention does (autograd/linear_attention.h); inside
// a chunk the recurrence is one triangular solve (tensor/cpu/delta.cpp). The backward needs the
// states in reverse order and never walks a state backwards: of n segments it saves about sqrt(n)
// states and computes those between again.
//
// Time O(N (F M + chunk (F + M))), extra bytes O(N) scalars + O(tile + sqrt(N / segment) F M a
// batch head).
#pragma once

#include "autograd/attention_inputs.h"
#include "autograd/feature_map.h"
#include "autograd/tiles.h"

namespace linea {

// What queries are multiplied by: 1, or D^{-1/2}.
double query_scale(KeyNorm norm, int64_t key_size);

// q, k [B,H,N,D], v [B,H,N,M], gates: beta and, where the state decays, log_decay -> y [B,H,N,M];
// in.gate is not read. A weight that the map gives a whole key is not read: it cancels in a division.
// Errors: shapes or dtypes that do not go together, options.causal false, no beta where values are
// corrected.
Var delta_attention(const FeatureMapPtr& map, const DeltaKind& kind, const AttentionInputs& in,
                    const RuleGates& gates, const LinearAttentionOptions& options);

// The state of the recurrent form, S [B,H,F,M].
class DeltaState final : public AttentionState {
 public:
  DeltaState(const Shape& shape, DType dtype) : state(Tensor::zeros(shape, dtype)) {}
  size_t bytes() const override { return state.bytes(); }
  Tensor state;
  int64_t position = 0;  // the next one
};
// One position (N = 1) of all sequences -> y [B,H,1,M]; changes the state.
Tensor delta_step(const FeatureMap& map, const DeltaKind& kind, DeltaState& state,
                  const AttentionInputs& in, const RuleGates& gates);

}  // namespace linea

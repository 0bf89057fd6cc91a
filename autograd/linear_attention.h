// Linear attention whose values are summed, for the rules of autograd/rules/sum.cpp and gated.cpp, which
// have the formulas: as a loop over tiles, a few batch heads by a segment of some hundred positions. The
// feature map computes a tile's features with tensor ops; the kernels of the sum rule (tensor/kernels.h,
// chunk_*) carry a state [F,M] per batch head from segment to segment. The backward computes
// features and states again: one sweep forward for dq, one backward for dk and dv. Saved for it: q,
// k, v, y, and one denominator (and its scale) a row. Never in memory: N x N scores, N states,
// features of a whole sequence. Time O(N (F M + chunk (F + M))), extra bytes O(N) scalars + O(tile).
//
// Weights w_j and decays, L the sum of their logs: a_ij = w_j exp(L_i - L_j) phi(q_i).phi(k_j), where
// exp(L_i) cancels in y_i.
#pragma once

#include "autograd/attention_inputs.h"
#include "autograd/tiles.h"
#include "tensor/recurrent_state.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M], gates: log_decay and log_weight -> y [B,H,N,M]; in.gate is not read.
// Errors: shapes or dtypes that do not go together; gates without `causal`, or with a map that
// weighs keys.
Var linear_attention(const FeatureMapPtr& map, const AttentionInputs& in, const RuleGates& gates,
                     const LinearAttentionOptions& options);

// The recurrent form's state, of fixed size. scaled: it decays, or its keys have weights.
struct LinearState final : AttentionState {
  LinearState(const FeatureMap& map, int64_t batch, int64_t heads, int64_t key_size,
              int64_t value_size, DType dtype, bool scaled)
      : recurrent({batch, heads, map.features(key_size)}, value_size, dtype,
                  scaled || map.kind() == FeatureKind::logs || map.weighs_keys()) {}
  size_t bytes() const override { return recurrent.bytes(); }
  RecurrentState recurrent;
};
// One position (N = 1) of all sequences -> y as linear_attention; updates the state.
Tensor linear_step(const FeatureMap& map, LinearState& state, const AttentionInputs& in,
                   const RuleGates& gates);

}  // namespace linea

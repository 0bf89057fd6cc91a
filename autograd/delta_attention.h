// The delta rule (Schlag 2021, section 4.2): what a key is already bound to is read, and only the
// difference is written, so a new value replaces an old one instead of being added to it:
//
//   vbar_t = S_{t-1}^T phi(k_t)     S_t = S_{t-1} + phi(k_t) (beta_t (v_t - vbar_t))^T     y_t =
//   S_t^T phi(q_t)
//
// phi(k) and phi(q) are divided by the sum of their components (a sum of exactly 0 makes the row
// 0), and there is no denominator. beta in (0,1) is how much of the difference is written. Causal
// by its nature.
//
// The chunked form loops over tiles as linear attention does (autograd/linear_attention.h); inside
// a chunk the recurrence is one triangular solve (tensor/cpu/delta.cpp). The backward needs the
// states in reverse order and no state is ever walked backwards: of n segments it keeps about
// sqrt(n) states and makes the ones between again.
//
// Time O(N (F M + chunk (F + M))), extra bytes O(N) scalars + O(tile + sqrt(N / segment) F M a
// pair).
#pragma once

#include <memory>

#include "autograd/attention_inputs.h"
#include "autograd/feature_map.h"
#include "autograd/tiles.h"
#include "autograd/var.h"

namespace linea {

// q, k [B,H,N,D], v [B,H,N,M], beta [B,H,N] -> y [B,H,N,M]. A weight that the map gives a whole key
// cancels in the division. Errors: shapes or dtypes that do not go together, options.causal false.
Var delta_attention(std::shared_ptr<const FeatureMap> map, const Var& q, const Var& k, const Var& v,
                    const Var& beta, const LinearAttentionOptions& options);

// The recurrent form's state of fixed size, S [B,H,F,M].
struct DeltaState {
  Tensor state;
};
DeltaState start_delta(int64_t batch, int64_t heads, int64_t features, int64_t value_size,
                       DType dtype);
// One position for all sequences side by side: q, k [B,H,D], v [B,H,M], beta [B,H] -> y [B,H,M];
// changes the state.
Tensor delta_step(const FeatureMap& map, DeltaState& state, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& beta);

// The definition with N x N matrices on the tape: with K, Q, V the rows of a whole sequence and B =
// diag(beta),
//
//   (I + strictly_lower(B K K^T)) X = B V     Y = lower(Q K^T) X
Var delta_quadratic(const std::shared_ptr<const FeatureMap>& map, const Var& q, const Var& k,
                    const Var& v, const Var& beta, const AttentionMask& mask);

}  // namespace linea

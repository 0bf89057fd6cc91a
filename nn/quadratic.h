// What the quadratic forms share: which scores a row may see.
#pragma once

#include "autograd/feature_map.h"
#include "nn/attention.h"

namespace linea {

// scores [B,H,N,N]: those of later keys (when causal) and of padded keys become `value`.
Var hide_unseen(const Var& scores, const AttentionMask& mask, double value);

// The definition: the matrix of a_ij / sum_j a_ij [B,H,N,N] on the tape, and y by a product with
// it.
Var attention_matrix(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const AttentionMask& mask);
Var linear_quadratic(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const AttentionMask& mask);

}  // namespace linea

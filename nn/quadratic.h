// What the quadratic forms share: which scores a row may see.
#pragma once

#include "nn/attention.h"

namespace linea {

// scores [B,H,N,N]: those of later keys (when causal) and of padded keys become `value`.
Var hide_unseen(const Var& scores, const AttentionMask& mask, double value);

}  // namespace linea

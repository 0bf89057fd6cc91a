// FLOPs of a token, counted from the model's sizes.
#pragma once

#include <optional>

#include "nn/model.h"

namespace linea {

// FLOPs of a token and head where the state S [F,M] has a fixed size, counted by the recurrent form
// whatever form runs; features, and terms linear in F or M, are not counted:
//   sum, gated  forward 4 F M: S += phi(k) v^T, S^T phi(q)
//               backward 10 F M: recomputing S, and the products for dq, dS, dk, dv
//   delta       forward 6 F M: also S^T phi(k)
//               backward 16 F M: recomputing S (4), dq, dS (2 products), dk (2 products), dv
struct RecurrentFlops {
  double forward, training;  // training: forward and backward
};
// None for an attention without such a state. `options` include the sizes.
std::optional<RecurrentFlops> recurrent_flops(const AttentionOptions& options);

// FLOPs of a token in training: 6 per matrix weight, and for the attention, per layer and head,
//   with a state  recurrent_flops()
//   softmax       the unmasked part, (N + 1) / 2 keys a query: forward 2 products, 2 2 (N + 1) / 2
//                 D; backward 5 products (scores again, dv, da, dq, dk), 2.5 times that
double flops_per_token(const Model& model);

}  // namespace linea

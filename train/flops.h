// FLOPs of a token, counted from the model's sizes.
#pragma once

#include "nn/model.h"

namespace linea {

// FLOPs of a token in training: 6 per matrix weight, and for the attention, per layer and head,
//   with a state  Attention::recurrent_flops
//   softmax       the unmasked part, (N + 1) / 2 keys a query: forward 2 products,
//                 2 2 (N + 1) / 2 D; backward 5 products (scores again, dv, da, dq, dk)
double flops_per_token(const Model& model);

}  // namespace linea

// FLOPs of a token, counted from the model's sizes.
#pragma once

#include "nn/model.h"

namespace linea {

// FLOPs of a token in training: 6 per matrix weight, and Attention::flops of each layer and head.
double flops_per_token(const Model& model);

}  // namespace linea

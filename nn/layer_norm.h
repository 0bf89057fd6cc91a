// y = weight (x - mean) / std + bias over the last axis (Ba 2016, "Layer normalization"). Blocks
// use it fused with the product that follows (norm_linear in autograd/layers.cpp).
#pragma once

#include <string>

#include "autograd/ops.h"
#include "nn/parameter.h"

namespace linea {

struct LayerNorm : NormVars {
  LayerNorm() = default;
  LayerNorm(ParameterInit& init, const std::string& name, int64_t dim, bool with_bias) {
    weight = init.constant(name + ".weight", {dim}, 1.0);
    if (with_bias) bias = init.constant(name + ".bias", {dim}, 0.0);
  }
};

}  // namespace linea

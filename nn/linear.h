// The layers whose weights the fused ops of autograd/layers.cpp take: a norm, and the linear one after it.
#pragma once

#include <string>
#include <vector>

#include "autograd/ops.h"
#include "nn/parameter.h"

namespace linea {

// y = weight (x - mean) / std + bias over the last axis (Ba 2016, "Layer normalization").
struct LayerNorm : NormVars {
  LayerNorm() = default;
  LayerNorm(ParameterInit& init, const std::string& name, int64_t dim, bool with_bias) {
    weight = init.constant(name + ".weight", {dim}, 1.0);
    if (with_bias) bias = init.constant(name + ".bias", {dim}, 0.0);
  }
};

// y = x W^T + b, W [out,in], b [out] or none. Sampling may read W from panels.
struct Linear : LinearVars {
  Linear() = default;
  // W ~ N(0, stddev^2), b = 0. matrices: as in Parameter.
  Linear(ParameterInit& init, const std::string& name, int64_t in, int64_t out, double stddev,
         bool with_bias, int64_t matrices = 0);

  // [...,in] -> [...,out]
  Var forward(const Var& x) const { return add_linear(Var(), x, *this); }
};

// Weights in the form in which they are multiplied: cast to the type of the activations, or packed
// in panels where the device samples from those (context().sizes.panels).
//
// Casts those that are defined and of another dtype, by one launch.
void cast_weights(std::vector<Var*> weights, DType dtype);

// Packs the weights as `dtype` into one allocation, in the order in which a step reads them.
void pack_panels(const std::vector<Linear*>& linears, DType dtype);

}  // namespace linea

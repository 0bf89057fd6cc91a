// y = x W^T + b, W [out,in], b [out] or none. The fused ops of autograd/layers.cpp take the same
// weights. Sampling may read W from panels (nn/sampling_weights.h).
#pragma once

#include <string>

#include "autograd/ops.h"
#include "nn/parameter.h"

namespace linea {

struct Linear : LinearVars {
  Linear() = default;
  // W ~ N(0, stddev^2), b = 0.
  Linear(ParameterInit& init, const std::string& name, int64_t in, int64_t out, double stddev,
         bool with_bias);

  Var forward(const Var& x) const;  // [...,in] -> [...,out]
};

}  // namespace linea

// x + dropout(down(gelu(up(norm(x))))): one fused op (autograd/layers.cpp). It treats each position
// alone, so sampling runs the same forward on one position.
#pragma once

#include <string>

#include "nn/layer_norm.h"
#include "nn/linear.h"

namespace linea {

struct ModelConfig;

struct FeedForward {
  // Parameters: PREFIXnorm2, PREFIXup, PREFIXdown.
  FeedForward(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
              uint32_t dropout_stream);

  Var forward(const Var& x, float dropout) const;
  Var branch(const Var& x, float dropout) const;  // without the residual

  LayerNorm norm;
  Linear up, down;
  uint32_t stream_id;  // of dropout
};

}  // namespace linea

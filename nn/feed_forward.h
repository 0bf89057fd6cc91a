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

  // residual false: without x +.
  Var forward(const Var& x, float dropout, bool residual = true) const;

  LayerNorm norm;
  Linear up, down;
  uint32_t stream_id;  // of dropout
};

}  // namespace linea

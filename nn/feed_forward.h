// residual + dropout(down(gelu(up(norm(conv(x)))))): one fused op (autograd/layers.cpp) after conv, the
// identity or a causal convolution. Without one it treats each position alone.
#pragma once

#include <string>

#include "nn/causal_convolution.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"

namespace linea {

struct BlockPass;
struct LayerState;
struct ModelConfig;

struct FeedForward {
  // Parameters: PREFIXconvolution2, PREFIXnorm2, PREFIXup, PREFIXdown.
  FeedForward(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
              uint32_t dropout_stream);

  // x [B,N,dim], or with a state one position [B,1,dim]; residual undefined: the branch alone.
  Var forward(const Var& residual, const Var& x, const BlockPass& pass, LayerState* state) const;

  CausalConvolution convolution;
  LayerNorm norm;
  Linear up, down;
  uint32_t stream_id;  // of dropout
};

}  // namespace linea

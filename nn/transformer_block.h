// x = x + attention(x), x = x + feed_forward(x), each with a norm in front (pre-norm), and before that
// the identity or a causal convolution.
#pragma once

#include <string>
#include <vector>

#include "nn/self_attention.h"

namespace linea {

// residual + dropout(down(gelu(up(norm(conv(x)))))): one fused op (autograd/layers.cpp) after conv, the
// identity or a causal convolution. Without one it treats each position alone.
struct FeedForward {
  // Parameters: PREFIXconvolution2, PREFIXnorm2, PREFIXup, PREFIXdown.
  FeedForward(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
              uint32_t dropout_stream);

  // x [B,N,dim], or with a state one position [B,1,dim]; residual undefined: the branch alone.
  Var forward(const Var& residual, const Var& x, const BlockPass& pass, LayerState* state) const;
  std::vector<Var*> weights();

  CausalConvolution convolution;
  LayerNorm norm;
  Linear up, down;
  uint32_t stream_id;  // of dropout
};

struct TransformerBlock {
  // Parameters: blocks.LAYER.
  TransformerBlock(ParameterInit& init, const ModelConfig& config, int64_t layer);

  Var forward(const Var& x, const BlockPass& pass) const;  // x [B,N,dim], or with states [B,1,dim]
  // The state before the first position; `positions` is read at each step.
  LayerState start(const Tensor& positions, DType stored) const;
  // The block as a reversible layer of two streams: x1 + attention(x2), x2 + feed_forward(x1).
  ReversibleLayer reversible_layer(const BlockPass& pass) const;

  std::vector<Linear*> linears();
  std::vector<Var*> weights();

  int64_t layer;
  SelfAttention attention;
  FeedForward feed_forward;
};

}  // namespace linea

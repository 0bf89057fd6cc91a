// x = x + attention(x), x = x + feed_forward(x), each with a norm in front (pre-norm), and before that
// the identity or a causal convolution.
#pragma once

#include <string>
#include <vector>

#include "nn/feed_forward.h"
#include "nn/self_attention.h"

namespace linea {

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

#include "nn/feed_forward.h"

#include "nn/model.h"
#include "nn/self_attention.h"

namespace linea {

FeedForward::FeedForward(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
                         uint32_t dropout_stream)
    : convolution(init, prefix + "convolution2", config.layer_convolution, config, config.dim),
      norm(init, prefix + "norm2", config.dim, config.bias),
      up(init, prefix + "up", config.dim, config.ffn, kInitStd, config.bias, 1),
      down(init, prefix + "down", config.ffn, config.dim, config.residual_std(), config.bias, 1),
      stream_id(dropout_stream) {}

Var FeedForward::forward(const Var& residual, const Var& x, const BlockPass& pass,
                         LayerState* state) const {
  const Var input =
      convolution.forward(x, state == nullptr ? nullptr : &state->feed_forward, pass.convolution);
  return add_feed_forward(residual, input, norm, up, down, {pass.dropout, stream_id});
}

}  // namespace linea

#include "nn/feed_forward.h"

#include "nn/model.h"

namespace linea {

FeedForward::FeedForward(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
                         uint32_t dropout_stream)
    : convolution(init, prefix + "convolution2", config.layer_convolution, config, config.dim),
      norm(init, prefix + "norm2", config.dim, config.bias),
      up(init, prefix + "up", config.dim, config.ffn, kInitStd, config.bias, 1),
      down(init, prefix + "down", config.ffn, config.dim, config.residual_std(), config.bias, 1),
      stream_id(dropout_stream) {}

Var FeedForward::forward(const Var& residual, const Var& x, float dropout,
                         const ConvolutionState* state, const ConvolutionRows& rows) const {
  return add_feed_forward(residual, convolution.forward(x, state, rows), norm, up, down,
                          {dropout, stream_id});
}

}  // namespace linea

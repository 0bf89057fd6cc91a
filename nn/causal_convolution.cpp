#include "nn/causal_convolution.h"

#include <algorithm>

#include "autograd/ops.h"
#include "nn/model.h"
#include "tensor/ops.h"

namespace linea {

ConvolutionShape convolution_offsets(const ModelConfig& config) {
  if (config.layer_convolution == "1d") return {.count = 4, .offset = {0, 1, 2, 3}};
  const int64_t W = config.image_width, C = config.image_channels;
  return {.count = 6,
          .offset = {0, 1, 2, C * W - C - 1, C * W - 1, C * W + C - 1},
          .rows_up = {0, 0, 0, 1, 1, 1},
          .column_shift = {0, 0, 0, 1, 0, -1},
          .width = W,
          .channels = C};
}

int64_t convolution_reach(const ModelConfig& config) {
  return config.layer_convolution == "none" ? 0 : convolution_offsets(config).ring() - 1;
}

void ConvolutionState::clear(int64_t sequence, int64_t first, int64_t end) const {
  if (!ring.defined() || first == end) return;
  const int64_t R = ring.size(1);
  const Tensor rows = ring.select(sequence), zeros = Tensor::zeros({1, ring.size(2)}, ring.dtype());
  for (int64_t n = std::max(first, end - R); n < end; ++n)
    ops::copy_into(zeros, rows.rows(n % R, 1));
}

CausalConvolution::CausalConvolution(ParameterInit& init, const std::string& name,
                                     const ModelConfig& config) {
  if (config.layer_convolution == "none") return;
  offsets = convolution_offsets(config);
  std::vector<float> values(static_cast<size_t>(offsets.count * config.dim));
  std::fill_n(values.begin(), config.dim, 1.0f);
  weight = Var(Tensor::from(values, {offsets.count, config.dim}), true);
  init.add({name + ".weight", weight, true});
}

Var CausalConvolution::forward(const Var& x, const ConvolutionState* state,
                               const ConvolutionRows& rows) const {
  if (!weight.defined()) return x;
  if (state == nullptr) return causal_convolution(x, weight, offsets, rows);
  return Var(
      ops::convolution_step(x.value(), weight.value(), offsets, state->positions, state->ring));
}

ConvolutionState CausalConvolution::start(const Tensor& positions, DType dtype) const {
  if (!weight.defined()) return {};
  return {Tensor::zeros({positions.size(0), offsets.ring(), weight.size(1)}, dtype), positions};
}

}  // namespace linea

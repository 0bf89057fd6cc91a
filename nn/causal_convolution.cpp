#include "nn/causal_convolution.h"

#include <algorithm>

#include "autograd/ops.h"
#include "nn/model.h"
#include "tensor/ops.h"

namespace linea {
namespace {

ConvolutionShape offsets_of(const std::string& kind, const ModelConfig& config) {
  if (kind == "1d") return {.count = 4, .offset = {0, 1, 2, 3}};
  const int64_t W = config.image_width, C = config.image_channels;
  return {.count = 6,
          .offset = {0, 1, 2, C * W - C - 1, C * W - 1, C * W + C - 1},
          .rows_up = {0, 0, 0, 1, 1, 1},
          .column_shift = {0, 0, 0, 1, 0, -1},
          .width = W,
          .channels = C};
}

}  // namespace

const std::vector<std::string>& convolution_kinds() {
  static const std::vector<std::string> kinds = {"none", "1d", "2d"};
  return kinds;
}

int64_t convolution_reach(const std::string& kind, const ModelConfig& config) {
  return kind == "none" ? 0 : offsets_of(kind, config).ring() - 1;
}

void check_convolution(const std::string& kind, const ModelConfig& config) {
  check_choice("layer_convolution", kind, convolution_kinds());
  require(
      kind != "2d" || config.image_width >= 2,
      "`layer_convolution` 2d needs images of at least two pixels a row: choose 1d, or a task of "
      "images");
}

CausalConvolution::CausalConvolution(ParameterInit& init, const std::string& name,
                                     const std::string& kind, const ModelConfig& config,
                                     int64_t columns) {
  if (kind == "none") return;
  offsets = offsets_of(kind, config);
  std::vector<float> values(static_cast<size_t>(offsets.count * columns));
  std::fill_n(values.begin(), columns, 1.0f);
  weight = Var(Tensor::from(values, {offsets.count, columns}), true);
  init.add({name + ".weight", weight, true});
}

Var CausalConvolution::forward(const Var& x, const ConvolutionState* state) const {
  if (!weight.defined()) return x;
  if (state == nullptr) return causal_convolution(x, weight, offsets);
  return Var(
      ops::convolution_step(x.value(), weight.value(), offsets, state->positions, state->ring));
}

ConvolutionState CausalConvolution::start(const Tensor& positions, DType dtype) const {
  if (!weight.defined()) return {};
  return {Tensor::zeros({positions.size(0), offsets.ring(), weight.size(1)}, dtype), positions};
}

}  // namespace linea

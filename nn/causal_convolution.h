// A causal depthwise convolution: each position becomes a sum of itself and positions before it,
// weighted by column. It starts as the identity.
//
//   1d: positions n, n - 1, n - 2, n - 3
//   2d: in images of W pixels a row and C channels, n, n - 1, n - 2 and the neighbors of the
//       predicted pixel in the row above: right, same column, left. Position n reads the channel
//       before the predicted one, so that these are n - (CW - C - 1), n - (CW - 1) and
//       n - (CW + C - 1); neighbors beyond the border count as zeros.
#pragma once

#include <string>
#include <vector>

#include "autograd/ops.h"
#include "nn/parameter.h"
#include "tensor/kernel_shapes.h"

namespace linea {

struct ModelConfig;

// State of sampling from position to position, undefined without a convolution: the last rows
// of each sequence, and the position i32 [B] on the device.
struct ConvolutionState {
  Tensor ring, positions;
  size_t bytes() const { return ring.defined() ? ring.bytes() : 0; }
  // The rows of positions from `first` to before `end` of a sequence become zeros.
  void clear(int64_t sequence, int64_t first, int64_t end) const;
};

struct CausalConvolution {
  CausalConvolution() = default;
  // For rows of `dim` columns. layer_convolution none: the identity, without a parameter.
  CausalConvolution(ParameterInit& init, const std::string& name, const ModelConfig& config);

  // x [B,N,columns], of some positions where `rows` are given; with a state, one position
  // [B,1,columns] of sampling.
  Var forward(const Var& x, const ConvolutionState* state = nullptr,
              const ConvolutionRows& rows = {}) const;
  ConvolutionState start(const Tensor& positions, DType dtype) const;

  Var weight;  // undefined: the identity
  ConvolutionShape offsets{};
};

inline std::vector<std::string> convolution_kinds() { return {"none", "1d", "2d"}; }
// The offsets of a model's kind, 1d or 2d, without B, N, C.
ConvolutionShape convolution_offsets(const ModelConfig& config);
// How many positions back it reads; 0 without one.
int64_t convolution_reach(const ModelConfig& config);

}  // namespace linea

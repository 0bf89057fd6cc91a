// Ops of tensor/ops.h on sequences: causal depthwise convolutions.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {
namespace {

// `offsets` with the sizes of x [B,N,C]. Errors: other shapes, offsets below 0 or too many.
ConvolutionShape sized(const char* op, ConvolutionShape offsets, const Tensor& x, const Tensor& w) {
  require(x.shape().rank() == 3, "{}: {} is not [B,N,C]", op, x.shape());
  require(offsets.count >= 1 && offsets.count <= ConvolutionShape::kMaxOffsets,
          "{}: {} offsets, of 1 to {}", op, offsets.count, ConvolutionShape::kMaxOffsets);
  for (int t = 0; t < offsets.count; ++t)
    require(offsets.offset[t] >= 0, "{}: the offset {} is not causal", op, offsets.offset[t]);
  require_shape(op, "the weight", w, {offsets.count, x.size(2)});
  offsets.B = x.size(0);
  offsets.N = x.size(1);
  offsets.C = x.size(2);
  return offsets;
}

}  // namespace

Tensor convolution(const Tensor& x, const Tensor& w, const ConvolutionShape& offsets) {
  const ConvolutionShape shape = sized("convolution", offsets, x, w);
  const DType dtype = common_dtype("convolution", {&x, &w});
  Tensor y(x.shape(), dtype);
  LINEA_LAUNCH(convolution, dtype, shape, x, w, y);
  return y;
}

std::pair<Tensor, Tensor> convolution_backward(const Tensor& x, const Tensor& w,
                                               const ConvolutionShape& offsets, const Tensor& dy) {
  const ConvolutionShape shape = sized("convolution_backward", offsets, x, w);
  const DType dtype = common_dtype("convolution_backward", {&x, &w, &dy});
  Tensor dx(x.shape(), dtype), dw(w.shape(), dtype);
  LINEA_LAUNCH(convolution_backward, dtype, shape, x, w, dy, dx, dw);
  return {dx, dw};
}

Tensor convolution_step(const Tensor& x, const Tensor& w, const ConvolutionShape& offsets,
                        const Tensor& positions, const Tensor& ring) {
  const ConvolutionShape shape = sized("convolution_step", offsets, x, w);
  require_shape("convolution_step", "ring", ring, {shape.B, shape.ring(), shape.C});
  require_shape("convolution_step", "positions", positions, {shape.B});
  const DType dtype = common_dtype("convolution_step", {&x, &w, &ring});
  Tensor y(x.shape(), dtype);
  LINEA_LAUNCH(convolution_step, dtype, shape, x, w, positions, ring, y);
  return y;
}

}  // namespace linea::ops

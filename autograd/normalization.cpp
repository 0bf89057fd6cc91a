#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {

// y = weight (x - mean) / stddev + bias; its backward: tensor/cpu/normalization.cpp
Var layer_norm(const Var& x, const Var& weight, const Var& bias) {
  const auto [y, mean, scale] = ops::layer_norm(x.value(), weight.value(), bias.value_or_none());
  return Var::from_op(
      "layer_norm", y, {x, weight, bias},
      [x = x.value(), weight = weight.value(), with_bias = bias.defined(),
       saved = ops::LayerNorm{Tensor(), mean, scale}](const Tensor& dy) -> Gradients {
        ops::LayerNormGradient d = ops::layer_norm_backward(x, weight, with_bias, saved, dy);
        return {d.dx, d.dweight, d.dbias};
      });
}

// y = exp(x) / sum exp(x);  dx = y (dy - sum(dy y))
Var softmax(const Var& x) {
  const Tensor y = ops::softmax(x.value());
  return Var::from_op("softmax", y, {x},
                      [y](const Tensor& dy) { return ops::softmax_backward(y, dy); });
}

// y = x / sum x;  dx = (dy - sum(dy y)) / sum x
Var normalize(const Var& x) {
  const auto [y, sums] = ops::normalize(x.value());
  return Var::from_op("normalize", y, {x}, [y = y, sums = sums](const Tensor& dy) {
    return ops::normalize_backward(y, sums, dy);
  });
}

// y = length x / |x|;  dx = (dy - y (dy . y) / length^2) length / |x|
Var unit_rows(const Var& x, double length) {
  const auto [y, scales] = ops::unit_rows(x.value(), length);
  return Var::from_op("unit_rows", y, {x}, [y = y, scales = scales, length](const Tensor& dy) {
    return ops::unit_rows_backward(y, scales, dy, length);
  });
}

// y = x on and below the diagonal, `value` above;  dx = dy there, 0 above
Var mask_causal(const Var& x, double value) {
  return Var::from_op("mask_causal", ops::mask_causal(x.value(), value), {x},
                      [](const Tensor& dy) { return ops::mask_causal(dy, 0.0); });
}

}  // namespace linea

#include "autograd/feature_map.h"

namespace linea {

std::vector<Tensor> zero_gradients(const std::vector<Var>& parameters) {
  std::vector<Tensor> result;
  for (const Var& parameter : parameters)
    result.push_back(parameter.requires_grad() ? Tensor::zeros(parameter.shape(), parameter.dtype())
                                               : Tensor());
  return result;
}

// Rows and weights are two ops on the same forward, each with the backward of its own result.
FeatureVars apply_features(const std::shared_ptr<const FeatureMap>& map, const Var& x, Side side) {
  const int64_t heads = x.size(1), N = x.size(2);
  const Tensor flat = x.value().reshape({x.size(0) * heads, N, x.size(3)});
  const Features features = map->forward(flat, side, {0, heads});
  const std::vector<Var> parameters = map->parameters();
  std::vector<Var> inputs = {x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  const auto op = [&](const Tensor& y, const Shape& y_shape, bool is_rows) {
    return Var::from_op("features", y.reshape(y_shape), inputs, [=](const Tensor& dy) {
      const std::vector<Tensor> dparameters = zero_gradients(parameters);
      Features gradient;
      gradient.rows = is_rows ? dy.reshape(y.shape())
                              : Tensor::zeros(features.rows.shape(), features.rows.dtype());
      if (!is_rows) gradient.weight = dy.reshape(y.shape());
      const Tensor dx = map->backward(flat, features, gradient, side, {0, heads}, dparameters);
      std::vector<Gradient> gradients = {dx.reshape({dy.size(0), heads, N, flat.size(2)})};
      gradients.insert(gradients.end(), dparameters.begin(), dparameters.end());
      return gradients;
    });
  };
  FeatureVars vars;
  vars.rows = op(features.rows, x.shape().with(-1, features.rows.size(2)), true);
  if (features.weight.defined()) vars.weight = op(features.weight, {x.size(0), heads, N}, false);
  return vars;
}

}  // namespace linea

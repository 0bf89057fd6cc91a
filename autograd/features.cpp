#include "autograd/feature_map.h"
#include "autograd/qkv_layout.h"

namespace linea {

Var from_feature_op(const char* op, const Tensor& value, std::vector<Var> inputs,
                    const FeatureMap& map, const FeatureBackward& backward, const Tensor& saved) {
  const std::vector<Var> parameters = map.parameters();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return Var::from_op(
      op, value, inputs,
      [parameters, backward](const Tensor& dy) {
        std::vector<Tensor> dparameters;
        for (const Var& parameter : parameters)
          dparameters.push_back(parameter.requires_grad()
                                    ? Tensor::zeros(parameter.shape(), parameter.dtype())
                                    : Tensor());
        Gradients gradients = backward(dy, dparameters);
        gradients.insert(gradients.end(), dparameters.begin(), dparameters.end());
        return gradients;
      },
      saved);
}

// Rows and weights are two ops on the same forward, each with the backward of its own result.
FeatureVars apply_features(const FeatureMapPtr& map, const Var& x, Side side) {
  const HeadRange heads{0, x.size(1)};
  const Tensor flat = flat_heads(x.value());
  const Features features = map->forward(flat, side, heads);
  const auto op = [&](const Tensor& y, const Shape& y_shape, bool is_rows) {
    return from_feature_op(
        "features", y.reshape(y_shape), {x}, *map,
        [=, shape = x.shape()](const Tensor& dy,
                               const std::vector<Tensor>& dparameters) -> Gradients {
          Features gradient{dy.reshape(y.shape())};
          if (!is_rows) {
            gradient.weight = gradient.rows;
            gradient.rows = Tensor::zeros(features.rows.shape(), features.rows.dtype());
          }
          return {map->backward(flat, features, gradient, side, heads, dparameters).reshape(shape)};
        });
  };
  FeatureVars vars{op(features.rows, x.shape().with(-1, features.rows.size(2)), true), Var()};
  if (features.weight.defined())
    vars.weight = op(features.weight, {x.size(0), x.size(1), x.size(2)}, false);
  return vars;
}

}  // namespace linea

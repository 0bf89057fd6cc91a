#include "autograd/feature_map.h"

namespace linea {

std::vector<Tensor> zero_gradients(const std::vector<Var>& parameters) {
  std::vector<Tensor> result;
  for (const Var& parameter : parameters)
    result.push_back(parameter.requires_grad() ? Tensor::zeros(parameter.shape(), parameter.dtype())
                                               : Tensor());
  return result;
}

// Rows and weights are two results of one forward: each op computes its own, and the backward of
// one knows nothing of the other.
FeatureVars apply_features(const std::shared_ptr<const FeatureMap>& map, const Var& x, Side side) {
  const int64_t heads = x.size(1), pairs = x.size(0) * heads, N = x.size(2), D = x.size(3);
  const Tensor flat = x.value().reshape({pairs, N, D});
  const Features made = map->forward(flat, side, {0, heads});
  std::vector<Var> inputs = {x};
  for (const Var& parameter : map->parameters()) inputs.push_back(parameter);
  const auto part = [&](bool of_rows) {
    return [=, map_parameters = map->parameters(), shape = x.shape()](const Tensor& dy) {
      std::vector<Gradient> result(1);
      std::vector<Tensor> grads;
      for (const Var& parameter : map_parameters) {
        grads.push_back(Tensor::zeros(parameter.shape(), parameter.dtype()));
        result.emplace_back(grads.back());
      }
      const Tensor zeros = Tensor::zeros(made.rows.shape(), made.rows.dtype());
      const Features gradient = of_rows ? Features{dy.reshape(made.rows.shape()), {}, {}}
                                        : Features{zeros, dy.reshape(made.weight.shape()), {}};
      result[0] = map->backward(flat, made, gradient, side, {0, heads}, grads).reshape(shape);
      return result;
    };
  };
  FeatureVars vars;
  vars.rows = Var::from_op("features", made.rows.reshape(x.shape().with(-1, made.rows.size(2))),
                           inputs, part(true));
  if (made.weight.defined())
    vars.weight =
        Var::from_op("features", made.weight.reshape({x.size(0), heads, N}), inputs, part(false));
  return vars;
}

}  // namespace linea

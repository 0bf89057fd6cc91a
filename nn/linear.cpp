#include "nn/linear.h"

#include "tensor/ops.h"

namespace linea {

Linear::Linear(ParameterInit& init, const std::string& name, int64_t in, int64_t out, double stddev,
               bool with_bias, int64_t matrices) {
  weight = init.normal(name + ".weight", {out, in}, stddev, false, matrices);
  if (with_bias) bias = init.constant(name + ".bias", {out}, 0.0);
}

void cast_weights(std::vector<Var*> weights, DType dtype) {
  std::erase_if(weights,
                [dtype](const Var* var) { return !var->defined() || var->dtype() == dtype; });
  std::vector<Var> vars;
  for (const Var* var : weights) vars.push_back(*var);
  const std::vector<Var> cast = cast_all(vars, dtype);
  for (size_t i = 0; i < weights.size(); ++i) *weights[i] = cast[i];
}

void pack_panels(const std::vector<Linear*>& linears, DType dtype) {
  int64_t total = 0, next = 0;
  for (const Linear* linear : linears) total += ops::panels_shape(linear->weight.value()).numel();
  const Tensor all({total}, dtype);
  for (Linear* linear : linears) {
    const Shape shape = ops::panels_shape(linear->weight.value());
    linear->panels = all.rows(next, shape.numel()).reshape(shape);
    ops::pack_panels_into(linear->weight.value(), linear->panels);
    next += shape.numel();
  }
}

}  // namespace linea

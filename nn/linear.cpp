#include "nn/linear.h"

namespace linea {

Linear::Linear(ParameterInit& init, const std::string& name, int64_t in, int64_t out, double stddev,
               bool with_bias) {
  weight = init.normal(name + ".weight", {out, in}, stddev);
  if (with_bias) bias = init.constant(name + ".bias", {out}, 0.0);
}

Var Linear::forward(const Var& x) const {
  const Var y = matmul(x, weight, false, true);
  return bias.defined() ? add_rows(y, bias) : y;
}

}  // namespace linea

#include "nn/embedding.h"

#include <cmath>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

Tensor sinusoidal_table(int64_t length, int64_t dim) {
  std::vector<float> values(static_cast<size_t>(length * dim));
  for (int64_t n = 0; n < length; ++n)
    for (int64_t d = 0; d < dim; ++d) {
      const double frequency =
          std::pow(10000.0, -static_cast<double>(d / 2 * 2) / static_cast<double>(dim));
      const double angle = static_cast<double>(n) * frequency;
      values[static_cast<size_t>(n * dim + d)] =
          static_cast<float>(d % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return Tensor::from(values, {length, dim});
}

}  // namespace

Var Embedding::forward(const Tensor& ids) const { return embedding(weight, ids); }

PositionEmbedding::PositionEmbedding(ParameterInit& init, const std::string& kind, int64_t length,
                                     int64_t dim) {
  weight = kind == "learned" ? init.normal("position_embedding.weight", {length, dim}, kInitStd)
                             : Var(sinusoidal_table(length, dim));
}

Var PositionEmbedding::forward(const Var& x) const {
  return add_rows(x, rows(weight, 0, x.size(1)));
}

Tensor PositionEmbedding::step(const Embedding& tokens, const Tensor& ids, const Tensor& position,
                               DType dtype) const {
  return ops::embed_position(tokens.weight.value(), ids, weight.value(), position, dtype);
}

}  // namespace linea

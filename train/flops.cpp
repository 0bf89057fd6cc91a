#include "train/flops.h"

namespace linea {

double flops_per_token(const Model& model) {
  const ModelConfig& config = model.config();
  const std::optional<RecurrentFlops> recurrent =
      make_attention(config.attention)->recurrent_flops();
  const double softmax =
      3.5 * 2.0 * static_cast<double>((config.length + 1) * config.attention.key_size);
  return 6.0 * static_cast<double>(model.matrix_weights()) +
         static_cast<double>(config.layers * config.heads) *
             (recurrent ? recurrent->training : softmax);
}

}  // namespace linea

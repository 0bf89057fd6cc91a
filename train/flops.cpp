#include "train/flops.h"

namespace linea {

double flops_per_token(const Model& model) {
  const ModelConfig& config = model.config();
  double of_a_head = 0;
  for (const auto& attention : model.attentions())
    of_a_head += attention->flops(config.length).training;
  return 6.0 * static_cast<double>(model.matrix_weights()) +
         static_cast<double>(config.heads) * of_a_head;
}

}  // namespace linea

#include "train/flops.h"

#include "autograd/linear_attention.h"

namespace linea {

std::optional<RecurrentFlops> recurrent_flops(const AttentionOptions& options) {
  const std::unique_ptr<AttentionState> state = make_attention(options)->start(1, DType::f32);
  if (const auto* linear = dynamic_cast<const LinearState*>(state.get())) {
    const auto elements = static_cast<double>(linear->key_sum.size(2) * options.value_size);  // F M
    return RecurrentFlops{4 * elements, 14 * elements};
  }
  if (options.rule != "delta") return std::nullopt;
  const double elements =
      static_cast<double>(state->bytes()) / static_cast<double>(options.heads) / sizeof(float);
  return RecurrentFlops{6 * elements, 22 * elements};
}

double flops_per_token(const Model& model) {
  const ModelConfig& config = model.config();
  const std::optional<RecurrentFlops> recurrent = recurrent_flops(config.attention);
  const double softmax =
      3.5 * 2.0 * static_cast<double>((config.length + 1) * config.attention.key_size);
  return 6.0 * static_cast<double>(model.matrix_weights()) +
         static_cast<double>(config.layers * config.heads) *
             (recurrent ? recurrent->training : softmax);
}

}  // namespace linea

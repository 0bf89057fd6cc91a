#include "nn/output_head.h"

#include "autograd/ops.h"
#include "base/settings.h"

namespace linea {

OutputHead::OutputHead(const std::string& name, int64_t tokens)
    : kind_(check_choice("output_head", name, output_head_names()) == 0 ? OutputKind::logits
                                                                        : OutputKind::logistics),
      tokens_(tokens) {
  require(has_logits() || tokens >= 2, "`output_head` logistics needs at least 2 levels, not {}",
          tokens);
}

// Means spread over the whole range, each scale the distance to the next mean: every level is near
// one component, and no two components are equal.
std::vector<double> OutputHead::initial_bias() const {
  if (has_logits()) return {};
  std::vector<double> bias(3 * kLogistics, 0.0);
  for (int64_t k = 0; k < kLogistics; ++k) {
    bias[static_cast<size_t>(kLogistics + k)] = static_cast<double>(2 * k + 1) / kLogistics - 1;
    bias[static_cast<size_t>(2 * kLogistics + k)] = std::log(1.0 / kLogistics);
  }
  return bias;
}

Var OutputHead::loss(const Var& outputs, const Tensor& targets) const {
  return has_logits() ? cross_entropy(outputs, targets) : logistics_loss(outputs, targets, tokens_);
}

Tensor OutputHead::losses(const Tensor& outputs, const Tensor& targets) const {
  if (has_logits()) return ops::cross_entropy(outputs, targets).losses;
  return ops::logistics_loss(outputs, targets, tokens_).losses;
}

Tensor OutputHead::scores(const Tensor& outputs) const {
  return has_logits() ? outputs : ops::logistics_scores(outputs, tokens_);
}

}  // namespace linea

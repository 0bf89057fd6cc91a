#include "nn/output_head.h"

#include "autograd/ops.h"
#include "base/settings.h"

namespace linea {
namespace {

class CategoricalHead : public OutputHead {
 public:
  explicit CategoricalHead(int64_t tokens) : OutputHead(OutputKind::logits, tokens) {}

  int64_t outputs() const override { return tokens_; }
  Var loss(const Var& outputs, const Tensor& targets) const override {
    return cross_entropy(outputs, targets);
  }
  Tensor losses(const Tensor& outputs, const Tensor& targets) const override {
    return ops::cross_entropy(outputs, targets).losses;
  }
  Tensor scores(const Tensor& outputs) const override { return outputs; }
};

class LogisticsHead : public OutputHead {
 public:
  explicit LogisticsHead(int64_t levels) : OutputHead(OutputKind::logistics, levels) {
    require(levels >= 2, "`output_head` logistics needs at least 2 levels, not {}", levels);
  }

  int64_t outputs() const override { return 3 * kLogistics; }

  // Means spread over the whole range, each scale the distance to the next mean: every level is
  // near one component, and no two components are equal.
  std::vector<double> initial_bias() const override {
    std::vector<double> bias(3 * kLogistics, 0.0);
    for (int64_t k = 0; k < kLogistics; ++k) {
      bias[static_cast<size_t>(kLogistics + k)] = static_cast<double>(2 * k + 1) / kLogistics - 1;
      bias[static_cast<size_t>(2 * kLogistics + k)] = std::log(1.0 / kLogistics);
    }
    return bias;
  }

  Var loss(const Var& outputs, const Tensor& targets) const override {
    return logistics_loss(outputs, targets, tokens_);
  }
  Tensor losses(const Tensor& outputs, const Tensor& targets) const override {
    return ops::logistics_loss(outputs, targets, tokens_).losses;
  }
  Tensor scores(const Tensor& outputs) const override {
    return ops::logistics_scores(outputs, tokens_);
  }
};

}  // namespace

const std::vector<std::string>& output_head_names() {
  static const std::vector<std::string> names = {"categorical", "logistics"};
  return names;
}

std::unique_ptr<OutputHead> make_output_head(const std::string& name, int64_t tokens) {
  check_choice("output_head", name, output_head_names());
  if (name == "logistics") return std::make_unique<LogisticsHead>(tokens);
  return std::make_unique<CategoricalHead>(tokens);
}

}  // namespace linea

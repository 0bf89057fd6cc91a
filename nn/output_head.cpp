#include "nn/output_head.h"

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

class CategoricalHead : public OutputHead {
 public:
  explicit CategoricalHead(int64_t tokens) : tokens_(tokens) {}

  int64_t outputs() const override { return tokens_; }
  Var loss(const Var& outputs, const Tensor& targets) const override {
    return cross_entropy(outputs, targets);
  }
  Tensor losses(const Tensor& outputs, const Tensor& targets) const override {
    return ops::cross_entropy(outputs, targets).losses;
  }
  Tensor scores(const Tensor& outputs) const override { return outputs; }
  void sample(const Tensor& outputs, const SamplingParams& params, const RandomStream& stream,
              const ops::Sampled& to) const override {
    ops::sample(OutputKind::logits, outputs, tokens_, params, stream, to);
  }

 private:
  int64_t tokens_;
};

class LogisticsHead : public OutputHead {
 public:
  explicit LogisticsHead(int64_t levels) : levels_(levels) {
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
    return logistics_loss(outputs, targets, levels_);
  }
  Tensor losses(const Tensor& outputs, const Tensor& targets) const override {
    return ops::logistics_loss(outputs, targets, levels_).losses;
  }
  Tensor scores(const Tensor& outputs) const override {
    return ops::logistics_scores(outputs, levels_);
  }
  void sample(const Tensor& outputs, const SamplingParams& params, const RandomStream& stream,
              const ops::Sampled& to) const override {
    ops::sample(OutputKind::logistics, outputs, levels_, params, stream, to);
  }

 private:
  int64_t levels_;
};

}  // namespace

const std::vector<std::string>& output_head_names() {
  static const std::vector<std::string> names = {"categorical", "logistics"};
  return names;
}

std::unique_ptr<OutputHead> make_output_head(const std::string& name, int64_t tokens) {
  if (name == "categorical") return std::make_unique<CategoricalHead>(tokens);
  if (name == "logistics") return std::make_unique<LogisticsHead>(tokens);
  fail(ErrorKind::usage, "`output_head` is '{}'; choose one of {}", name,
       fmt::join(output_head_names(), ", "));
}

}  // namespace linea

// An output head defines the number of outputs per position, the loss, and the scores of all
// tokens. Training, evaluation and sampling use the outputs of a model through it alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "tensor/ops.h"

namespace linea {

// categorical: the logit of each token. logistics: a mixture of kLogistics discretized logistic
// distributions (tensor/formulas.h) on tokens that are brightness levels, of any number.
inline std::vector<std::string> output_head_names() { return {"categorical", "logistics"}; }

class OutputHead {
 public:
  // Error: ErrorKind::usage, another name, or logistics with fewer than 2 tokens.
  OutputHead(const std::string& name, int64_t tokens);

  int64_t outputs() const { return has_logits() ? tokens_ : 3 * kLogistics; }  // per position
  // The initial bias of the output layer, one number an output; empty: 0, and a bias only where the
  // linear layers have one.
  std::vector<double> initial_bias() const;

  // The mean of -log P(target) over the targets >= 0, in nats; outputs [..., outputs()], targets
  // i32 [...].
  Var loss(const Var& outputs, const Tensor& targets) const;
  // -log P(target) of each, 0 where it is not scored.
  Tensor losses(const Tensor& outputs, const Tensor& targets) const;
  // Unnormalized log probabilities, [..., tokens].
  Tensor scores(const Tensor& outputs) const;
  // Samples a token for each row of outputs.
  void sample(const Tensor& outputs, const SamplingParams& params, const RandomStream& stream,
              const ops::Sampled& to) const {
    ops::sample(kind_, outputs, tokens_, params, stream, to);
  }

 private:
  bool has_logits() const { return kind_ == OutputKind::logits; }

  OutputKind kind_;
  int64_t tokens_;
};

}  // namespace linea

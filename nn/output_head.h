// What a model's last numbers mean: a head tells how many there are at a position, what they lose
// against the tokens that came, and how likely they hold each token. Training, evaluation and
// sampling know no more of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "tensor/ops.h"

namespace linea {

class OutputHead {
 public:
  virtual ~OutputHead() = default;

  virtual int64_t outputs() const = 0;  // numbers a position
  // The bias that training starts from, one number an output; empty: 0, and only where linear
  // layers have biases.
  virtual std::vector<double> initial_bias() const { return {}; }

  // The mean of -log P(target) over the targets >= 0, in nats; outputs [..., outputs()], targets
  // i32 [...].
  virtual Var loss(const Var& outputs, const Tensor& targets) const = 0;
  // -log P(target) of each, 0 where it is not scored.
  virtual Tensor losses(const Tensor& outputs, const Tensor& targets) const = 0;
  // Logs of numbers in proportion to P, [..., tokens].
  virtual Tensor scores(const Tensor& outputs) const = 0;
  // Draws a token of each row of outputs.
  virtual void sample(const Tensor& outputs, const SamplingParams& params,
                      const RandomStream& stream, const ops::Sampled& to) const = 0;
};

// categorical: a number a token, its logit. logistics: a mixture of kLogistics discretized
// logistic distributions (tensor/formulas.h) on tokens that are levels of brightness, whatever
// their count. Error: ErrorKind::usage, another name, or logistics with fewer than 2 tokens.
std::unique_ptr<OutputHead> make_output_head(const std::string& name, int64_t tokens);

}  // namespace linea

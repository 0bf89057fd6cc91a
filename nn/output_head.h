// An output head defines the number of outputs per position, the loss, and the scores of all
// tokens. Training, evaluation and sampling use the outputs of a model through it alone.
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
  OutputHead(OutputKind kind, int64_t tokens) : kind_(kind), tokens_(tokens) {}
  virtual ~OutputHead() = default;

  virtual int64_t outputs() const = 0;  // per position
  // The initial bias of the output layer, one number an output; empty: 0, and a bias only where the
  // linear layers have one.
  virtual std::vector<double> initial_bias() const { return {}; }

  // The mean of -log P(target) over the targets >= 0, in nats; outputs [..., outputs()], targets
  // i32 [...].
  virtual Var loss(const Var& outputs, const Tensor& targets) const = 0;
  // -log P(target) of each, 0 where it is not scored.
  virtual Tensor losses(const Tensor& outputs, const Tensor& targets) const = 0;
  // Unnormalized log probabilities, [..., tokens].
  virtual Tensor scores(const Tensor& outputs) const = 0;
  // Samples a token for each row of outputs.
  void sample(const Tensor& outputs, const SamplingParams& params, const RandomStream& stream,
              const ops::Sampled& to) const {
    ops::sample(kind_, outputs, tokens_, params, stream, to);
  }

 protected:
  const OutputKind kind_;
  const int64_t tokens_;
};

// categorical: the logit of each token. logistics: a mixture of kLogistics discretized logistic
// distributions (tensor/formulas.h) on tokens that are brightness levels, of any number. Error:
// ErrorKind::usage, another name, or logistics with fewer than 2 tokens.
const std::vector<std::string>& output_head_names();
std::unique_ptr<OutputHead> make_output_head(const std::string& name, int64_t tokens);

}  // namespace linea

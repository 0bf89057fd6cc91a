// Attentions that are wrong on purpose: each must fail the conformance check that is there for its
// defect, one that is known from other implementations wherever there is such. `linea verify
// --break` and the tests of the checks use them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention.h"

namespace linea::sabotage {

// A right attention whose methods saboteurs replace one at a time.
class Saboteur : public Attention {
 public:
  explicit Saboteur(const AttentionOptions& options);
  AttentionFlops flops(int64_t length) const override { return right_->flops(length); }
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward(in, mask);
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->quadratic(in, mask);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return right_->start(batch, dtype);
  }
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return right_->step(state, in);
  }
  std::vector<Buffer> buffers() const override { return right_->buffers(); }
  Parameters parameters() const override { return right_->parameters(); }

 protected:
  std::unique_ptr<Attention> right_;
};

// The value of x, with a gradient times `factor`.
Var with_gradient_times(const Var& x, double factor);

struct Break {
  std::string name;
  std::string about;      // what is wrong, as a clause
  std::string attention;  // that it is a defect of: flags; empty: any
  AttentionFactory make;
  bool sees_all = false;  // in a form that is not causal, which the attention must have
};

// gradient, future, stabilizer, padding, redraw and overflow.
const std::vector<Break>& breaks();
std::vector<std::string> break_names();
// Error: ErrorKind::usage naming those there are.
const Break& find_break(const std::string& name);

}  // namespace linea::sabotage

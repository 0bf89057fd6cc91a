// Attentions that are wrong on purpose: each must fail the conformance check that is there for its
// defect, one that is known from other implementations wherever there is such.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/verify/conformance.h"

namespace linea::sabotage {

// A right attention whose methods saboteurs replace one at a time.
class Saboteur : public Attention {
 public:
  explicit Saboteur(const AttentionOptions& options) : right_(make_attention(options)) {
    traits_ = right_->traits();
    gate_ = right_->gate();
  }
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

template <typename Wrong>
Check check_of(const std::string& name, const AttentionOptions& variant = {}, bool quick = true) {
  const AttentionFactory make = [](const AttentionOptions& options) {
    return std::make_unique<Wrong>(options);
  };
  const std::vector<Check> checks = check_attention(variant, {quick, name, make});
  for (const Check& check : checks)
    if (check.name == name) return check;
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

// Expects that `Right` passes and `Wrong` fails the check `name`.
template <typename Wrong, typename Right = Saboteur>
void expect_caught(const std::string& name, const AttentionOptions& variant = {},
                   bool quick = true) {
  const Check right = check_of<Right>(name, variant, quick),
              wrong = check_of<Wrong>(name, variant, quick);
  EXPECT_TRUE(right.passed) << name << ": " << right.measured << " at " << right.detail;
  EXPECT_FALSE(wrong.passed) << name << ": " << wrong.measured;
}

inline AttentionOptions with_feature(const std::string& feature) {
  AttentionOptions options;
  options.settings["feature"] = feature;
  return options;
}

}  // namespace linea::sabotage

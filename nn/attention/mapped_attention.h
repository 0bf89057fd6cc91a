// An attention that is a feature map under the sum or the gated rule: all forms follow from the
// map. Derived classes provide the map and its parameters, buffers and hooks of training.
#pragma once

#include <memory>

#include "autograd/linear_attention.h"
#include "nn/attention.h"
#include "nn/attention/naive.h"

namespace linea {

class MappedAttention : public Attention {
 public:
  // The auxiliary loss of codes needs the keys alone.
  bool takes_packed() const override { return !straight_through(); }
  // Logs and weights of keys need the precision of f32.
  bool takes_bf16() const override {
    return !gated() && map()->in_kernel() != KernelFeature::given;
  }
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return linear_attention(map(), in, {mask.causal, mask.valid, options_.segment, options_.chunk});
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return naive::quadratic(in.gate.defined() ? naive::Rule::gated : naive::Rule::sum, map(), in,
                            mask);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return start_linear(*map(), batch, options_.heads, options_.key_size, options_.value_size,
                        dtype, gated());
  }
  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    return linear_step(*map(), dynamic_cast<LinearState&>(state), in);
  }
  bool steps_from_source() const override { return map()->in_kernel() != KernelFeature::given; }
  Tensor step_from(AttentionState& state, const AttentionSource& in) const override {
    return linear_step_from(*map(), dynamic_cast<LinearState&>(state), in);
  }
  // forward 4 F M: S += phi(k) v^T, S^T phi(q); backward 10 F M: S again, and the products for dq,
  // dS, dk, dv
  std::optional<RecurrentFlops> recurrent_flops() const override {
    const auto elements =
        static_cast<double>(map()->features(options_.key_size) * options_.value_size);
    return RecurrentFlops{4 * elements, 14 * elements};
  }

 protected:
  explicit MappedAttention(const AttentionOptions& options) : options_(options) {}
  virtual std::shared_ptr<const FeatureMap> map() const = 0;

  const AttentionOptions options_;
};

}  // namespace linea

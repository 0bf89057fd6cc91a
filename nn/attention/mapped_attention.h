// An attention that is a feature map under an update rule: all forms follow from the two. Derived
// classes provide the map's parameters, buffers and hooks of training.
#pragma once

#include <memory>

#include "autograd/delta_attention.h"
#include "autograd/linear_attention.h"
#include "nn/attention.h"
#include "nn/attention/naive.h"
#include "nn/random_projection.h"
#include "tensor/bfloat16.h"

namespace linea {

class MappedAttention : public Attention {
 public:
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const LinearAttentionOptions cut{mask.causal, mask.valid, options_.segment, options_.chunk};
    return is_delta() ? delta_attention(map_, in, cut) : linear_attention(map_, in, cut);
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return naive::quadratic(rule_, map_, in, mask);
  }
  Tensor decay_gradient(const AttentionInputs& in, const Tensor& dy) const override {
    if (!naive::decays(rule_)) return {};
    return naive::decay_gradient(rule_, naive::make_inputs(rule_, map_, in, {}), dy);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    const int64_t H = options_.heads, D = options_.key_size, M = options_.value_size;
    if (is_delta())
      return std::make_unique<DeltaState>(Shape{batch, H, map_->features(D), M}, dtype);
    return std::make_unique<LinearState>(*map_, batch, H, D, M, dtype, gate_.size > 0);
  }
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return is_delta() ? delta_step(*map_, dynamic_cast<DeltaState&>(state), in)
                      : linear_step(*map_, dynamic_cast<LinearState&>(state), in);
  }
  // forward 4 F M: S += phi(k) v^T, S^T phi(q), and of the delta rule S^T phi(k); backward 10 F M:
  // S again, and the products for dq, dS, dk, dv; of the delta rule 16 F M: S again (4), dq, dS
  // (twice), dk (twice), dv
  AttentionFlops flops(int64_t) const override {
    const auto elements =
        static_cast<double>(map_->features(options_.key_size) * options_.value_size);
    return {(is_delta() ? 6 : 4) * elements, (is_delta() ? 22 : 14) * elements};
  }

 protected:
  // A derived class that has to make its map first calls set_map() in its constructor.
  explicit MappedAttention(const AttentionOptions& options,
                           std::shared_ptr<const FeatureMap> map = nullptr,
                           naive::Rule rule = naive::Rule::sum)
      : options_(options), rule_(rule) {
    gate_ = {rule_ == naive::Rule::gated_delta ? "gates"
             : is_delta()                      ? "beta"
                                               : "gate",
             naive::decays(rule_) + naive::is_delta(rule_)};
    if (map != nullptr) set_map(std::move(map));
  }
  void set_map(std::shared_ptr<const FeatureMap> map) {
    map_ = std::move(map);
    traits_.causal_only = gate_.size > 0;
    traits_.straight_through = map_->straight_through();
    traits_.signed_weights = map_->weighs_keys();
    // The auxiliary loss of codes needs the keys alone.
    traits_.packed_qkv = !is_delta() && !traits_.straight_through;
    // Logs and weights of keys need the precision of f32.
    traits_.bf16_inputs = gate_.size == 0 && map_->in_kernel() != KernelFeature::given;
  }

  // The random numbers of a head of this layer at a step.
  RandomStream random_stream(int64_t head, int64_t step) const {
    return {options_.seed, Purpose::features,
            static_cast<uint32_t>(options_.layer * options_.heads + head),
            static_cast<uint64_t>(step)};
  }
  // Fills omega [H,R,D] with a projection for each head; `rounded`: of bf16 numbers.
  void draw(Projection projection, int64_t step, const Tensor& omega, bool rounded = false) const {
    for (int64_t head = 0; head < options_.heads; ++head) {
      std::vector<double> values =
          draw_projection(projection, omega.size(1), omega.size(2), random_stream(head, step));
      if (rounded)
        for (double& value : values) value = BFloat16(value);
      write_values(values, omega.select(head));
    }
  }

  const AttentionOptions options_;
  std::shared_ptr<const FeatureMap> map_;

 private:
  bool is_delta() const { return naive::is_delta(rule_); }

  naive::Rule rule_;
};

}  // namespace linea

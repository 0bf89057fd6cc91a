// An attention that is a feature map under an update rule: all forms follow from the two. Derived
// classes provide the map's parameters, buffers and hooks of training.
#pragma once

#include <memory>
#include <utility>

#include "autograd/update_rule.h"
#include "nn/attention.h"
#include "nn/random_projection.h"
#include "tensor/bfloat16.h"

namespace linea {

class MappedAttention : public Attention {
 public:
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return rule_->forward(map_, in, {mask.causal, mask.valid, options_.segment, options_.chunk});
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return rule_->quadratic(features_of(in, mask), mask);
  }
  Tensor decay_gradient(const AttentionInputs& in, const Tensor& dy) const override {
    if (!rule_->spec().decay_gate) return {};
    return naive::decay_gradient(features_of(in, {}), dy);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return rule_->start(*map_, batch, options_.heads, options_.key_size, options_.value_size,
                        dtype);
  }
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return rule_->step(*map_, state, in);
  }
  AttentionFlops flops(int64_t) const override {
    return rule_->flops(map_->features(options_.key_size), options_.value_size);
  }
  const FeatureMap& map() const { return *map_; }
  const UpdateRule& rule() const { return *rule_; }
  // Features and gates as the definitions of the rule take them.
  naive::Inputs features_of(const AttentionInputs& in, const AttentionMask& mask) const {
    return rule_->inputs(map_, in, mask);
  }

 protected:
  // A derived class that has to make its map first calls set_map() in its constructor.
  explicit MappedAttention(const AttentionOptions& options, FeatureMapPtr map = nullptr,
                           RulePtr rule = sum_rule())
      : Attention(options), rule_(std::move(rule)) {
    gate_ = rule_->spec().gate;
    if (map != nullptr) set_map(std::move(map));
  }
  void set_map(FeatureMapPtr map) {
    map_ = std::move(map);
    const RuleSpec& rule = rule_->spec();
    traits_.causal_only = rule.causal_only;
    traits_.takes_parts = true;
    traits_.any_order = rule.name == "sum";
    traits_.denominators = rule_->has_denominators();
    traits_.rotary = traits_.denominators ? Rotary::none : Rotary::features;
    traits_.heads_differ = rule.heads_differ;
    traits_.straight_through = map_->straight_through();
    traits_.signed_weights = map_->weighs_keys();
    // The auxiliary loss of codes needs the keys alone.
    traits_.packed_qkv = rule.packed_qkv && !traits_.straight_through;
    // Logs and weights of keys need the precision of f32.
    traits_.bf16_inputs = rule.bf16_inputs && map_->in_kernel() != KernelFeature::given;
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

  FeatureMapPtr map_;

 private:
  const RulePtr rule_;
};

}  // namespace linea

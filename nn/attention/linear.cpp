// Linear attention, the sum rule: y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j).
// Source: Katharopoulos, Vyas, Pappas, Fleuret 2020, "Transformers are RNNs", eq. 4-5, 18-20.
#include "autograd/ops.h"
#include "nn/attention.h"
#include "nn/engine.h"
#include "nn/quadratic.h"

namespace linea {
namespace {

class State final : public AttentionState {
 public:
  explicit State(LinearState state) : linear(std::move(state)) {}
  size_t bytes() const override { return linear.state.bytes() + linear.key_sum.bytes(); }
  LinearState linear;
};

class LinearAttention final : public Attention {
 public:
  explicit LinearAttention(const AttentionOptions& options)
      : options_(options), map_(make_feature_map(options.feature, options.nu)) {
    map_->features(options.key_size);  // refuses what cannot be before the first batch
  }

  Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    return linear_attention(*map_, q, k, v, {mask.causal, mask.valid, options_.segment, options_.chunk});
  }

  Var quadratic(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const override {
    const Var scores = matmul(map_->apply(q), map_->apply(k), false, true);
    return matmul(normalize(hide_unseen(scores, mask, 0.0)), v);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<State>(start_linear(batch, options_.heads, map_->features(options_.key_size),
                                                options_.value_size, dtype));
  }

  Tensor step(AttentionState& state, const Tensor& q, const Tensor& k, const Tensor& v) const override {
    return linear_step(*map_, dynamic_cast<State&>(state).linear, q, k, v);
  }

 private:
  AttentionOptions options_;
  std::unique_ptr<FeatureMap> map_;
};

std::vector<AttentionOptions> variants() {
  std::vector<AttentionOptions> result;
  for (const std::string& feature : feature_map_names()) {
    AttentionOptions options;
    options.feature = feature;
    options.nu = feature == "dpfp" ? 2 : 1;
    result.push_back(options);
  }
  return result;
}

const Registration kRegistration({"linear", variants(), [](const AttentionOptions& options) {
                                    return std::make_unique<LinearAttention>(options);
                                  }});

}  // namespace
}  // namespace linea

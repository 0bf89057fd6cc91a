// Caught: memory that grows with the sequence where it must not.
#include "autograd/linear_attention.h"
#include "nn/attention.h"
#include "nn/feature_map.h"
#include "tensor/ops.h"
#include "tests/nn/verify/saboteur.h"

namespace linea::sabotage {
namespace {

// A state that keeps every key.
class GrowingState final : public Saboteur {
 public:
  explicit GrowingState(const AttentionOptions& options) : Saboteur(options) {
    AttentionOptions softmax = options;
    softmax.name = "softmax";
    right_ = make_attention(softmax);
  }
};

TEST(Sabotage, AStateThatGrows) { expect_caught<GrowingState>("state growth, keys a position"); }

// N x N scores, kept for the backward.
class QuadraticMemory final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->quadratic(in, mask);
  }
};

// N x F features, kept for the backward.
class KeptFeatures final : public Saboteur {
 public:
  explicit KeptFeatures(const AttentionOptions& options)
      : Saboteur(options), map_(make_feature_map("elu", 1)) {}
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Var y = right_->forward(in, mask);
    const int64_t pairs = in.k.size(0) * in.k.size(1);
    const Tensor keys = in.k.value().reshape({pairs, in.k.size(2), in.k.size(3)});
    const Tensor features = map_->forward(keys, Side::key, {0, in.k.size(1)}).rows;
    return Var::from_op("kept", ops::scale(y.value(), 1.0), {y},
                        [features](const Tensor& dy) -> std::vector<Gradient> { return {dy}; });
  }

 private:
  std::unique_ptr<FeatureMap> map_;
};

TEST(Sabotage, MemoryThatIsNotConstant) {
  expect_caught<QuadraticMemory>("memory, scalars a position");
  expect_caught<KeptFeatures>("memory, scalars a position");
}

}  // namespace
}  // namespace linea::sabotage

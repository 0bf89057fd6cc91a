// The definition where a gate is exactly 1: a key of no weight adds nothing, to gradients either.
#include <gtest/gtest.h>

#include "autograd/linear_attention.h"
#include "nn/feature_map.h"
#include "nn/quadratic.h"
#include "nn/verify/conformance_tools.h"

namespace linea {
namespace {

using namespace conformance;

constexpr int64_t kLength = 9;
constexpr int64_t kWeightless = 4;

// Gradients of q, k, v and the gate, by the definition and by the engine.
std::vector<Tensor> gradients(const std::string& feature, double gate_at, bool quadratic) {
  const Sizes sizes{2, 3, kLength, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  std::vector<double> gates = x.gate.to_doubles();
  for (size_t i = kWeightless; i < gates.size(); i += kLength) gates[i] = gate_at;
  const Var q(x.q, true), k(x.k, true), v(x.v, true);
  const Var gate(Tensor::from(gates, {sizes.batch, sizes.heads, kLength}), true);
  const std::shared_ptr<const FeatureMap> map = make_feature_map(feature, 1);
  const AttentionInputs in{q, k, v, gate};
  backward(quadratic ? linear_quadratic(map, in, {}) : linear_attention(map, in, {}), x.dy);
  return {q.grad(), k.grad(), v.grad(), gate.grad()};
}

TEST(AttentionMatrix, AGateOfOneHasTheGradientsOfOneNearIt) {
  for (const std::string feature : {"exp", "elu"}) {
    const std::vector<Tensor> at_one = gradients(feature, 1.0, true),
                              near = gradients(feature, 1 - 1e-12, true),
                              engine = gradients(feature, 1.0, false);
    for (size_t i = 0; i < at_one.size(); ++i) {
      SCOPED_TRACE(feature + ", gradient " + std::to_string(i));
      EXPECT_EQ(ops::count_nonfinite(at_one[i]), 0);
      EXPECT_LT(relative_error(engine[i], at_one[i]), 1e-9);
      // The gate's own is 0 there: a logistic function is flat where it is 1.
      if (i < 3) {
        EXPECT_LT(relative_error(near[i], at_one[i]), 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace linea

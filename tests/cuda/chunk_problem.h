// Inputs of the sum rule's kernels, alike on every device.
#pragma once

#include <limits>

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {

// Features as they are given: values at or above 0 (of any sign where a kernel makes features of them), or logs of
// which the share `lost` is -infinity.
template <typename T>
Tensor features(const Shape& shape, uint32_t lane, FeatureKind kind, KernelFeature feature, double deviation,
                double lost) {
  const Tensor x = input<T>(shape, lane, deviation), coin = input<T>(shape, lane + 1000);
  std::vector<double> values = x.to_doubles(), toss = coin.to_doubles();
  std::vector<T> result;
  for (size_t i = 0; i < values.size(); ++i) {
    double value = values[i];
    if (kind == FeatureKind::values && feature == KernelFeature::given) value = std::abs(value);
    const double below = 0.5 * std::erfc(-toss[i] / std::sqrt(2.0));
    if (kind == FeatureKind::logs && below < lost) value = -std::numeric_limits<double>::infinity();
    result.push_back(static_cast<T>(static_cast<float>(value)));
  }
  return Tensor::from(result, shape);
}

template <typename T>
Tensor negative(const Shape& shape, uint32_t lane, double deviation) {
  std::vector<T> result;
  for (const double x : input<T>(shape, lane, deviation).to_doubles())
    result.push_back(static_cast<T>(static_cast<float>(-std::abs(x))));
  return Tensor::from(result, shape);
}

// S, z and their scales, starting with nothing.
template <typename T>
struct Carried {
  using A = Accumulator<T>;
  Carried(int64_t pairs, int64_t F, int64_t M, bool scaled)
      : state(Tensor::zeros({pairs, F, M}, DTypeOf<A>::value)), key_sum(Tensor::zeros({pairs, F}, DTypeOf<A>::value)) {
    if (scaled)
      scale = Tensor::full({pairs, F}, DTypeOf<A>::value, -std::numeric_limits<double>::infinity());
  }
  ChunkState<A> view() const {
    return {state.template data<A>(), key_sum.template data<A>(), scale.defined() ? scale.template data<A>() : nullptr};
  }
  std::vector<Tensor> sums() const {
    if (!scale.defined()) return {state, key_sum};
    return {state, key_sum, scale};
  }
  Tensor state, key_sum, scale;
};

}  // namespace linea::cuda_tests

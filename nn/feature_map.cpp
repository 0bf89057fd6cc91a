#include "nn/feature_map.h"

#include <functional>

#include "tensor/ops.h"

namespace linea {
namespace {

// A map that treats queries, keys and heads alike; its formulas are in tensor/formulas.h and
// tensor/cpu/features.cpp.
struct RowMap {
  std::function<Tensor(const Tensor& x)> forward;
  std::function<Tensor(const Tensor& x, const Tensor& dy)> backward;
  std::function<int64_t(int64_t key_size)> features = [](int64_t key_size) { return key_size; };
  FeatureKind kind = FeatureKind::values;
  KernelFeature in_kernel = KernelFeature::given;
};

class RowFeatures final : public FeatureMap {
 public:
  explicit RowFeatures(RowMap map) : map_(std::move(map)) {}
  int64_t features(int64_t key_size) const override { return map_.features(key_size); }
  FeatureKind kind() const override { return map_.kind; }
  KernelFeature in_kernel() const override { return map_.in_kernel; }
  Features forward(const Tensor& x, Side, const HeadRange&) const override {
    return {map_.forward(x)};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side,
                  const HeadRange&, const std::vector<Tensor>&) const override {
    return map_.backward(x, gradient.rows);
  }

 private:
  RowMap map_;
};

// elu + 1 (Katharopoulos 2020), relu + 1e-3 (Choromanski 2021), silu (Yang 2025).
RowMap elementwise(Pointwise f, KernelFeature in_kernel) {
  RowMap map{[f](const Tensor& x) { return ops::pointwise(f, x); },
             [f](const Tensor& x, const Tensor& dy) { return ops::pointwise_backward(f, x, dy); }};
  map.in_kernel = in_kernel;
  return map;
}

// phi(x) = x; as logs exp(x) (Su 2020): x is its own log.
RowMap identity(FeatureKind kind) {
  return {.forward = [](const Tensor& x) { return x; },
          .backward = [](const Tensor&, const Tensor& dy) { return dy; },
          .kind = kind};
}

// phi(x) = vec(x x^T): phi(q).phi(k) = (q.k)^2 (Tsai 2019; Katharopoulos 2020, section 3.2).
RowMap square() {
  return {ops::quadratic_features, ops::quadratic_features_backward,
          [](int64_t key_size) { return key_size * key_size; }};
}

// r = relu([x, -x]), products of r with itself rolled by 1..nu (Schlag 2021, eq. 37).
RowMap dpfp(int64_t nu) {
  return {
      [nu](const Tensor& x) { return ops::dpfp_features(x, nu); },
      [nu](const Tensor& x, const Tensor& dy) { return ops::dpfp_features_backward(x, dy, nu); },
      [nu](int64_t key_size) { return ops::dpfp_size(key_size, nu); }};
}

}  // namespace

std::unique_ptr<FeatureMap> make_feature_map(const std::string& name, int64_t nu) {
  const auto make = [](RowMap map) { return std::make_unique<RowFeatures>(std::move(map)); };
  if (name == "elu") return make(elementwise(Pointwise::feature_elu, KernelFeature::elu));
  if (name == "relu") return make(elementwise(Pointwise::feature_relu, KernelFeature::relu));
  if (name == "exp") return make(identity(FeatureKind::logs));
  if (name == "square") return make(square());
  if (name == "dpfp") return make(dpfp(nu));
  if (name == "silu") return make(elementwise(Pointwise::silu, KernelFeature::given));
  if (name == "identity") return make(identity(FeatureKind::values));
  fail(ErrorKind::usage, "there is no feature map '{}' for linear attention; choose one of {}",
       name, fmt::join(feature_map_names(), ", "));
}

}  // namespace linea

#include "nn/feature_map.h"

#include "tensor/ops.h"

namespace linea {
namespace {

// Elementwise: elu + 1 (Katharopoulos 2020), relu + 1e-3 (Choromanski 2021); formulas
// in tensor/formulas.h.
class PointwiseFeatures final : public FeatureMap {
 public:
  PointwiseFeatures(Pointwise f, KernelFeature in_kernel) : f_(f), in_kernel_(in_kernel) {}
  KernelFeature in_kernel() const override { return in_kernel_; }
  int64_t features(int64_t key_size) const override { return key_size; }
  Features forward(const Tensor& x, Side, const HeadRange&) const override {
    return {ops::pointwise(f_, x), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side,
                  const HeadRange&, const std::vector<Tensor>&) const override {
    return ops::pointwise_backward(f_, x, gradient.rows);
  }

 private:
  Pointwise f_;
  KernelFeature in_kernel_;
};

// phi(x) = exp(x) (Su 2020): x is its own log.
class ExpFeatures final : public FeatureMap {
 public:
  int64_t features(int64_t key_size) const override { return key_size; }
  FeatureKind kind() const override { return FeatureKind::logs; }
  Features forward(const Tensor& x, Side, const HeadRange&) const override { return {x, {}}; }
  Tensor backward(const Tensor&, const Features&, const Features& gradient, Side, const HeadRange&,
                  const std::vector<Tensor>&) const override {
    return gradient.rows;
  }
};

// phi(x) = vec(x x^T): phi(q).phi(k) = (q.k)^2 (Tsai 2019; Katharopoulos 2020, section 3.2).
class SquareFeatures final : public FeatureMap {
 public:
  int64_t features(int64_t key_size) const override { return key_size * key_size; }
  Features forward(const Tensor& x, Side, const HeadRange&) const override {
    return {ops::quadratic_features(x), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side,
                  const HeadRange&, const std::vector<Tensor>&) const override {
    return ops::quadratic_features_backward(x, gradient.rows);
  }
};

// r = relu([x, -x]), products of r with itself rolled by 1..nu (Schlag 2021, eq. 37).
class DpfpFeatures final : public FeatureMap {
 public:
  explicit DpfpFeatures(int64_t nu) : nu_(nu) {}
  int64_t features(int64_t key_size) const override {
    require(nu_ >= 1 && nu_ < 2 * key_size,
            "dpfp: nu is {}; it must be in 1..{} for keys of size {}", nu_, 2 * key_size - 1,
            key_size);
    return 2 * key_size * nu_;
  }
  Features forward(const Tensor& x, Side, const HeadRange&) const override {
    return {ops::dpfp_features(x, nu_), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side,
                  const HeadRange&, const std::vector<Tensor>&) const override {
    return ops::dpfp_features_backward(x, gradient.rows, nu_);
  }

 private:
  int64_t nu_;
};

}  // namespace

std::vector<std::string> feature_map_names() { return {"elu", "relu", "exp", "square", "dpfp"}; }

std::unique_ptr<FeatureMap> make_feature_map(const std::string& name, int64_t nu) {
  if (name == "elu")
    return std::make_unique<PointwiseFeatures>(Pointwise::feature_elu, KernelFeature::elu);
  if (name == "relu")
    return std::make_unique<PointwiseFeatures>(Pointwise::feature_relu, KernelFeature::relu);
  if (name == "exp") return std::make_unique<ExpFeatures>();
  if (name == "square") return std::make_unique<SquareFeatures>();
  if (name == "dpfp") return std::make_unique<DpfpFeatures>(nu);
  fail(ErrorKind::usage, "there is no feature map '{}' for linear attention; choose one of {}",
       name, fmt::join(feature_map_names(), ", "));
}

}  // namespace linea

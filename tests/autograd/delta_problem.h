// The delta rule written from its formula in loops over positions, the problems it is asked, and
// runs of the chunked and the quadratic form with all their gradients.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/delta_attention.h"
#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "autograd/update_rule.h"
#include "nn/attention.h"
#include "nn/feature_map.h"
#include "nn/verify/conformance_tools.h"

namespace linea::delta_tests {

using Map = std::shared_ptr<const FeatureMap>;

inline Map named(const char* name) { return make_feature_map(name, 1); }

// max(x, 0): rows of features may be 0 altogether.
class CutOff final : public FeatureMap {
 public:
  int64_t features(int64_t key_size) const override { return key_size; }
  Features forward(const Tensor& x, Side, const HeadRange&) const override {
    return {ops::pointwise(Pointwise::relu, x), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side,
                  const HeadRange&, const std::vector<Tensor>&) const override {
    return ops::pointwise_backward(Pointwise::relu, x, gradient.rows);
  }
};

// log phi(x) = x W, W [D,F] a parameter; W of queries is twice that of keys.
class TrainedLogs final : public FeatureMap {
 public:
  explicit TrainedLogs(Var width) : width_(std::move(width)) {}
  int64_t features(int64_t) const override { return width_.size(1); }
  FeatureKind kind() const override { return FeatureKind::logs; }
  std::vector<Var> parameters() const override { return {width_}; }
  Features forward(const Tensor& x, Side side, const HeadRange&) const override {
    return {ops::matmul(x, width_.value(), false, false, factor(side)), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side side,
                  const HeadRange&, const std::vector<Tensor>& gradients) const override {
    const int64_t rows = x.numel() / x.size(-1);
    if (gradients.at(0).defined())
      ops::accumulate(
          ops::matmul(x.reshape({rows, x.size(-1)}), gradient.rows.reshape({rows, width_.size(1)}),
                      true, false, factor(side)),
          gradients[0]);
    return ops::matmul(gradient.rows, width_.value(), false, true, factor(side));
  }

 private:
  static double factor(Side side) { return side == Side::query ? 2.0 : 1.0; }
  Var width_;
};

// The rule of as many gates: beta, or beta and a decay.
inline RulePtr rule_of(const AttentionInputs& in) {
  return in.gate.size(3) == 2 ? gated_delta_rule() : delta_rule();
}
inline Var delta(const Map& map, const AttentionInputs& in, const LinearAttentionOptions& options) {
  return rule_of(in)->forward(map, in, options);
}
inline Var definition(const Map& map, const AttentionInputs& in, const AttentionMask& mask) {
  const RulePtr rule = rule_of(in);
  return rule->quadratic(rule->inputs(map, in, mask), mask);
}

// beta [B,H,N,1], or beta and the decay [B,H,N,2] of the gated delta rule.
struct Problem {
  int64_t B, H, N, D, M;
  Tensor q, k, v, beta, dy;
  bool decays() const { return beta.size(3) == 2; }
};

// Numbers in (0,1) of the shape.
inline Tensor fractions(const Shape& shape, uint32_t stream_id, DType dtype) {
  std::vector<double> values = random_tensor(shape, stream_id, 1.5).to_doubles();
  for (double& value : values) value = 1 / (1 + std::exp(-value));
  return conformance::in_dtype(Tensor::from(values, shape), dtype);
}

inline Problem problem(int64_t B, int64_t H, int64_t N, int64_t D, int64_t M,
                       DType dtype = DType::f64, bool decays = false) {
  const auto normal = [&](int64_t width, uint32_t stream_id) {
    return random_tensor({B, H, N, width}, stream_id, 1.0, 1e-2, dtype);
  };
  const Tensor beta = fractions({B, H, N, decays ? 2 : 1}, 34, dtype);
  return {B, H, N, D, M, normal(D, 31), normal(D, 32), normal(M, 33), beta, normal(M, 35)};
}

inline double& at(std::vector<double>& x, int64_t i) { return x[static_cast<size_t>(i)]; }

// phi of all rows divided by their sums.
inline std::vector<double> unit_rows(const FeatureMap& map, const Tensor& x, Side side) {
  const int64_t P = x.size(0) * x.size(1), N = x.size(2), D = x.size(3), F = map.features(D);
  std::vector<double> phi =
      map.forward(x.reshape({P, N, D}), side, {0, x.size(1)}).rows.to_doubles();
  for (int64_t row = 0; row < P * N; ++row) {
    double sum = 0;
    for (int64_t f = 0; f < F; ++f) {
      double& value = at(phi, row * F + f);
      if (map.kind() == FeatureKind::logs) value = std::exp(value);
      sum += value;
    }
    for (int64_t f = 0; f < F; ++f)
      at(phi, row * F + f) = sum == 0 ? 0.0 : at(phi, row * F + f) / sum;
  }
  return phi;
}

// S = a S, S += k^T beta (v - k S), y = q S, one position after the other; a = 1 of the delta rule;
// positions from `valid` on change nothing.
inline Tensor by_loops(const FeatureMap& map, const Problem& p,
                       const std::vector<int32_t>& valid = {}) {
  std::vector<double> q = unit_rows(map, p.q, Side::query), k = unit_rows(map, p.k, Side::key);
  std::vector<double> v = p.v.to_doubles(), beta = p.beta.to_doubles(), y(v.size(), 0.0);
  const int64_t F = map.features(p.D), M = p.M;
  for (int64_t pair = 0; pair < p.B * p.H; ++pair) {
    std::vector<double> S(static_cast<size_t>(F * M), 0.0);
    const int64_t keys = valid.empty() ? p.N : valid[static_cast<size_t>(pair / p.H)];
    for (int64_t t = 0; t < p.N; ++t) {
      const int64_t row = pair * p.N + t, gate = p.decays() ? 2 * row : row;
      if (p.decays() && t < keys)
        for (double& element : S) element *= at(beta, gate + 1);
      for (int64_t m = 0; m < M; ++m) {
        double bound = 0;
        for (int64_t f = 0; f < F; ++f) bound += at(S, f * M + m) * at(k, row * F + f);
        const double written = at(beta, gate) * (at(v, row * M + m) - bound);
        for (int64_t f = 0; f < F && t < keys; ++f)
          at(S, f * M + m) += at(k, row * F + f) * written;
        for (int64_t f = 0; f < F; ++f) at(y, row * M + m) += at(S, f * M + m) * at(q, row * F + f);
      }
    }
  }
  return Tensor::from(y, p.v.shape());
}

struct Result {
  Tensor y, dq, dk, dv, dbeta;
};

template <typename Form>
inline Result run(const Form& form, const Problem& p) {
  const Var q(p.q, true), k(p.k, true), v(p.v, true), beta(p.beta, true);
  const Var y = form(q, k, v, beta);
  backward(y, p.dy);
  return {y.value(), q.grad(), k.grad(), v.grad(), beta.grad()};
}

inline Result chunked(const Map& map, const Problem& p,
                      const LinearAttentionOptions& options = {}) {
  return run([&](const auto&... in) { return delta(map, {in...}, options); }, p);
}

inline Result quadratic(const Map& map, const Problem& p, const Tensor& valid = {}) {
  return run([&](const auto&... in) { return definition(map, {in...}, {true, valid}); }, p);
}

inline void expect_close(const Result& found, const Result& expected, double error,
                         double gradient_error, const std::string& where) {
  EXPECT_LE(relative_error(found.y, expected.y), error) << where;
  EXPECT_LE(relative_error(found.dq, expected.dq), gradient_error) << where;
  EXPECT_LE(relative_error(found.dk, expected.dk), gradient_error) << where;
  EXPECT_LE(relative_error(found.dv, expected.dv), gradient_error) << where;
  EXPECT_LE(relative_error(found.dbeta, expected.dbeta), gradient_error) << where;
}

}  // namespace linea::delta_tests

// The gated rule against a loop over its state, S_t = g_t S_{t-1} + (1 - g_t) phi(k_t) v_t^T, in
// double.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "autograd/update_rule.h"
#include "nn/attention.h"
#include "nn/feature_map.h"
#include "nn/verify/conformance_tools.h"

namespace linea::gated_tests {
namespace {

using namespace conformance;
using Map = std::shared_ptr<const FeatureMap>;

// q, k, v, dy of draw(), and gates [B,H,N,1].
struct Problem {
  Inputs x;
  Tensor gate;
};

Problem problem(int64_t N, const std::function<double(int64_t)>& gate_at, DType dtype) {
  const Sizes sizes{2, 3, N, 4, 5};
  std::vector<double> gates(static_cast<size_t>(2 * 3 * N));
  for (size_t i = 0; i < gates.size(); ++i)
    gates[i] = static_cast<float>(gate_at(static_cast<int64_t>(i) % N));
  return {draw(sizes, dtype), in_dtype(Tensor::from(gates, {2, 3, N, 1}), dtype)};
}

Tensor by_loops(const FeatureMap& map, const Problem& p) {
  const Inputs x = in_dtype(p.x, DType::f64);
  const int64_t P = 6, N = x.q.size(2), F = map.features(4), M = 5;
  const auto values = [&](const Tensor& rows, Side side) {
    std::vector<double> phi = map.forward(rows.reshape({P, N, 4}), side, {0, 3}).rows.to_doubles();
    for (double& value : phi) value = map.kind() == FeatureKind::logs ? std::exp(value) : value;
    return phi;
  };
  const std::vector<double> q = values(x.q, Side::query), k = values(x.k, Side::key),
                            v = x.v.to_doubles();
  const std::vector<double> gates = p.gate.to_doubles();
  std::vector<double> y(v.size());
  for (int64_t pair = 0; pair < P; ++pair) {
    std::vector<double> S(static_cast<size_t>(F * M)), z(static_cast<size_t>(F));
    for (int64_t t = pair * N; t < (pair + 1) * N; ++t) {
      const double g = gates[static_cast<size_t>(t)];
      double denominator = 0;
      for (int64_t f = 0; f < F; ++f) {
        const double phi_k = k[static_cast<size_t>(t * F + f)],
                     phi_q = q[static_cast<size_t>(t * F + f)];
        double& sum = z[static_cast<size_t>(f)];
        sum = g * sum + (1 - g) * phi_k;
        denominator += phi_q * sum;
        for (int64_t m = 0; m < M; ++m) {
          double& s = S[static_cast<size_t>(f * M + m)];
          s = g * s + (1 - g) * phi_k * v[static_cast<size_t>(t * M + m)];
          y[static_cast<size_t>(t * M + m)] += phi_q * s;
        }
      }
      for (int64_t m = 0; m < M; ++m) y[static_cast<size_t>(t * M + m)] /= denominator;
    }
  }
  return Tensor::from(y, x.v.shape());
}

Var gated(const Map& map, const AttentionInputs& in, const LinearAttentionOptions& options) {
  return gated_rule()->forward(map, in, options);
}

Var definition(const Map& map, const AttentionInputs& in, const AttentionMask& mask) {
  return gated_rule()->quadratic(gated_rule()->inputs(map, in, mask), mask);
}

Tensor forward(const Map& map, const Problem& p, const LinearAttentionOptions& options) {
  return gated(map, {Var(p.x.q), Var(p.x.k), Var(p.x.v), Var(p.gate)}, options).value();
}

void expect_is_the_loop(const std::function<double(int64_t)>& gate_at, const std::string& what,
                        double float_bound = 1e-5) {
  for (const char* name : {"elu", "exp"}) {
    const Map map = make_feature_map(name, 1);
    for (const DType dtype : {DType::f64, DType::f32}) {
      const double bound = dtype == DType::f64 ? 1e-11 : float_bound;
      const Problem p = problem(150, gate_at, dtype);
      const Tensor expected = by_loops(*map, p);
      for (const int64_t segment : {0, 40, 1})
        EXPECT_LE(
            relative_error(forward(map, p, {true, {}, segment, segment == 40 ? 16 : 0}), expected),
            bound)
            << what << " " << name << " segments " << segment << " " << name_of(dtype);
      AttentionOptions options;
      options.heads = 3;
      options.key_size = 4;
      options.value_size = 5;
      const auto state = std::make_unique<LinearState>(*map, 2, options.heads, options.key_size,
                                                       options.value_size, dtype, true);
      for (int64_t n = 0; n < 150; ++n) {
        const AttentionInputs step{Var(at_position(p.x.q, n)), Var(at_position(p.x.k, n)),
                                   Var(at_position(p.x.v, n)), Var(at_position(p.gate, n))};
        EXPECT_LE(
            relative_error(gated_rule()->step(*map, *state, step), at_position(expected, n), 1.0),
            bound)
            << what << " " << name << " step " << n << " " << name_of(dtype);
      }
    }
  }
}

TEST(Gated, MatchesTheLoop) {
  expect_is_the_loop([](int64_t n) { return 0.5 + 0.49 * std::sin(static_cast<double>(n * n)); },
                     "gates of all sizes");
}

TEST(Gated, GatesNearZeroAndOne) {
  expect_is_the_loop([](int64_t) { return 1e-6; }, "1e-6");
  expect_is_the_loop([](int64_t) { return 1e-30; }, "1e-30");
  expect_is_the_loop([](int64_t) { return 1 - 1e-4; }, "1 - 1e-4");
  expect_is_the_loop([](int64_t) { return 1 - 6e-8; }, "the float below 1");
  expect_is_the_loop([](int64_t n) { return n % 2 == 0 ? 1e-6 : 1 - 6e-8; }, "in turn", 1e-4);
}

// 1e-192: a product that float does not hold, and what follows must not see it.
TEST(Gated, AProductOfManySmallGates) {
  expect_is_the_loop([](int64_t n) { return n >= 20 && n < 84 ? 1e-3 : 0.9; }, "64 of 1e-3", 1e-4);
  expect_is_the_loop([](int64_t n) { return n >= 64 && n < 128 ? 1e-3 : 0.99; }, "a chunk of 1e-3",
                     1e-4);
}

TEST(Gated, GradientsInFloat) {
  const Map map = make_feature_map("exp", 1);
  const std::function<double(int64_t)> kinds[] = {
      [](int64_t n) { return n >= 20 && n < 84 ? 1e-3 : 0.9; },
      [](int64_t n) { return 0.5 + 0.49 * std::sin(static_cast<double>(n)); },
      [](int64_t) { return 1 - 1e-4; }};
  for (const auto& gate_at : kinds) {
    const auto gradients = [&](DType dtype, bool quadratic) {
      const Problem p = problem(150, gate_at, dtype);
      const Var q(p.x.q, true), k(p.x.k, true), v(p.x.v, true), gate(p.gate, true);
      const AttentionInputs in{q, k, v, gate};
      backward(quadratic ? definition(map, in, {}) : gated(map, in, {}), p.x.dy);
      return std::vector<Tensor>{q.grad(), k.grad(), v.grad(), gate.grad()};
    };
    const std::vector<Tensor> found = gradients(DType::f32, false),
                              expected = gradients(DType::f64, true);
    for (size_t i = 0; i < 4; ++i) EXPECT_LE(relative_error(found[i], expected[i]), 1e-4) << i;
  }
}

TEST(Gated, GatesGetTheirGradient) {
  const Map map = make_feature_map("elu", 1);
  const Inputs x = draw({2, 2, 11, 3, 4}, DType::f64, 1.0, 1, 0.05);
  std::vector<double> gates(44);
  for (size_t i = 0; i < gates.size(); ++i)
    gates[i] = i % 5 == 0 ? 0.01 : i % 5 == 1 ? 0.99 : 0.1 + 0.018 * static_cast<double>(i);
  const Tensor valid = Tensor::from(std::vector<int32_t>{11, 6}, {2});
  for (const Tensor& mask : {Tensor(), valid})
    for (const int64_t segment : {0, 4}) {
      const GradcheckResult result = gradcheck(
          [&](const std::vector<Var>& in) {
            return gated(map, {in[0], in[1], in[2], in[3]}, {true, mask, segment, 2});
          },
          {x.q, x.k, x.v, Tensor::from(gates, {2, 2, 11, 1})});
      EXPECT_LE(result.error, 1e-7)
          << result.worst_input << " segment " << segment << " " << mask.defined();
    }
}

// A gate that has been rounded to 1 writes nothing: before anything is written the output is 0.
TEST(Gated, AGateOfOneKeepsTheState) {
  const Map map = make_feature_map("elu", 1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Problem p = problem(
        60, [](int64_t n) { return n < 3 || n % 3 == 0 ? 1.0 : 0.7; }, dtype);
    const Tensor y = forward(map, p, {});
    EXPECT_EQ(ops::count_nonfinite(y), 0);
    EXPECT_EQ(largest(y, [](int64_t, int64_t n) { return n < 3; }), 0.0);
    Tensor expected = by_loops(*map, p);
    const auto written = [](const Tensor& t) {
      return blend(t, Tensor::zeros(t.shape(), t.dtype()),
                   [](int64_t, int64_t n) { return n < 4; });
    };
    EXPECT_LE(relative_error(written(y), written(expected)), 1e-5);
    const Var gate(p.gate, true);
    backward(gated(map, {Var(p.x.q), Var(p.x.k), Var(p.x.v), gate}, {}), p.x.dy);
    EXPECT_EQ(ops::count_nonfinite(gate.grad()), 0);
  }
}

// A gate that has been rounded to 0 forgets all that is before it.
TEST(Gated, AGateOfZeroForgets) {
  const Map map = make_feature_map("elu", 1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Problem p = problem(
        150, [](int64_t n) { return n % 7 == 5 ? 0.0 : 0.6; }, dtype);
    EXPECT_LE(relative_error(forward(map, p, {}), by_loops(*map, p)), 1e-5);
    const Var gate(p.gate, true);
    backward(gated(map, {Var(p.x.q), Var(p.x.k), Var(p.x.v), gate}, {}), p.x.dy);
    EXPECT_EQ(ops::count_nonfinite(gate.grad()), 0);
  }
}

// The gradient of a gate is a sum over all later keys, of terms that cancel: 1,500 roundings to bf16
// would leave noise.
TEST(Gated, ProductsAreNotRounded) {
  const Map map = make_feature_map("elu", 1);
  const Problem p = problem(
      1500, [](int64_t n) { return n % 2 == 0 ? 0.999 : 0.9; }, DType::f32);
  const auto gradients = [&](FloatProducts products) {
    const FloatProducts before = std::exchange(context().products, products);
    const Var q(p.x.q, true), k(p.x.k, true), v(p.x.v, true), gate(p.gate, true);
    backward(gated(map, {q, k, v, gate}, {}), p.x.dy);
    context().products = before;
    return std::vector<Tensor>{q.grad(), k.grad(), v.grad(), gate.grad()};
  };
  const std::vector<Tensor> exact = gradients(FloatProducts::exact),
                            rounded = gradients(FloatProducts::rounded);
  for (size_t i = 0; i < exact.size(); ++i)
    EXPECT_EQ(rounded[i].to_doubles(), exact[i].to_doubles()) << i;
}

// A query that scores 0 with its own key, behind a gate of 1e-39 or 1e-37: the reciprocal of the
// denominator is infinite, or so large that the products behind it are. Such a row has the output 0
// and no gradient.
TEST(Gated, ATinyDenominatorIsARowWithoutWeight) {
  const Map map = make_feature_map("elu", 1);
  constexpr int64_t N = 70;
  std::vector<double> q, k;
  for (int64_t i = 0; i < 2 * 3 * N; ++i)
    for (int64_t d = 0; d < 4; ++d) {
      const bool even = i % N % 2 == 0;         // even keys have features 0 and 1, odd keys 2 and 3
      k.push_back((d < 2) == even ? 0 : -110);  // phi: 1 and 0
      q.push_back((d < 2) == even ? -110 : 0);
    }
  for (const double gate : {1e-39, 1e-37, 1e-30}) {
    Problem p = problem(
        N, [&](int64_t n) { return n % 8 == 5 ? gate : 0.6; }, DType::f32);
    p.x.q = in_dtype(Tensor::from(q, {2, 3, N, 4}), DType::f32);
    p.x.k = in_dtype(Tensor::from(k, {2, 3, N, 4}), DType::f32);
    const Var in_q(p.x.q, true), in_k(p.x.k, true), in_v(p.x.v, true), in_gate(p.gate, true);
    const Var y = gated(map, {in_q, in_k, in_v, in_gate}, {});
    backward(y, ops::scale(p.x.dy, 100));
    for (const Var& input : {in_q, in_k, in_v, in_gate})
      EXPECT_EQ(ops::count_nonfinite(input.grad()), 0) << gate;
    const auto without_weight = [&](int64_t, int64_t n) {
      return n == 0 || (gate < 1e-36 && n % 8 == 5);
    };
    const Tensor expected = by_loops(*map, p), zeros = Tensor::zeros(expected.shape(), DType::f64),
                 kept = blend(expected, zeros, without_weight);
    EXPECT_LE(relative_error(y.value(), kept), 1e-5) << gate;
    const auto state = std::make_unique<LinearState>(*map, 2, 3, 4, 5, DType::f32, true);
    for (int64_t n = 0; n < N; ++n) {
      const Tensor step =
          gated_rule()->step(*map, *state,
                             {Var(at_position(p.x.q, n)), Var(at_position(p.x.k, n)),
                              Var(at_position(p.x.v, n)), Var(at_position(p.gate, n))});
      EXPECT_LE(relative_error(step, at_position(kept, n), 1.0), 1e-5) << gate << " step " << n;
    }
  }
}

AttentionInputs with_logits(const Problem& p, bool gradients = false) {
  AttentionInputs in{Var(p.x.q, gradients), Var(p.x.k, gradients), Var(p.x.v, gradients),
                     Var(p.gate, gradients)};
  in.gate_form = GateForm::logit;
  return in;
}

TEST(Gated, LogitsAreGates) {
  const auto logit_at = [](int64_t n) { return 6 * std::sin(static_cast<double>(n * n)); };
  for (const char* name : {"elu", "exp"}) {
    const Map map = make_feature_map(name, 1);
    const Problem logits = problem(150, logit_at, DType::f64);
    Problem gates = logits;
    gates.gate = ops::pointwise(Pointwise::sigmoid, logits.gate);
    const Tensor expected = by_loops(*map, gates);
    EXPECT_LE(relative_error(gated(map, with_logits(logits), {}).value(), expected), 1e-12);
    const auto state = std::make_unique<LinearState>(*map, 2, 3, 4, 5, DType::f64, true);
    for (int64_t n = 0; n < 150; ++n) {
      AttentionInputs step{Var(at_position(logits.x.q, n)), Var(at_position(logits.x.k, n)),
                           Var(at_position(logits.x.v, n)), Var(at_position(logits.gate, n))};
      step.gate_form = GateForm::logit;
      EXPECT_LE(
          relative_error(gated_rule()->step(*map, *state, step), at_position(expected, n), 1.0),
          1e-12);
    }
  }
}

// From a logit of 17 on, float rounds the gate to 1. With equal gates near 1 the rule is a sum.
TEST(Gated, ALogitNearOneStillWrites) {
  for (const char* name : {"elu", "exp"})
    for (const double logit : {17.0, 20.0, 40.0, 90.0}) {
      const Map map = make_feature_map(name, 1);
      const Problem p = problem(
          150, [&](int64_t) { return logit; }, DType::f32);
      const AttentionInputs sum{Var(in_dtype(p.x.q, DType::f64)), Var(in_dtype(p.x.k, DType::f64)),
                                Var(in_dtype(p.x.v, DType::f64)), Var()};
      EXPECT_LE(relative_error(gated(map, with_logits(p), {}).value(),
                               linear_attention(map, sum, {}, {}).value()),
                1e-5)
          << name << " " << logit;
    }
}

TEST(Gated, LogitsGetTheirGradient) {
  const Map map = make_feature_map("elu", 1);
  const Inputs x = draw({2, 2, 11, 3, 4}, DType::f64, 1.0, 1, 0.05);
  const Tensor logits = random_tensor({2, 2, 11, 1}, 9, 4.0),
               valid = Tensor::from(std::vector<int32_t>{11, 6}, {2});
  for (const Tensor& mask : {Tensor(), valid})
    for (const bool quadratic : {false, true}) {
      const GradcheckResult result = gradcheck(
          [&](const std::vector<Var>& leaf) {
            AttentionInputs in{leaf[0], leaf[1], leaf[2], leaf[3]};
            in.gate_form = GateForm::logit;
            return quadratic ? definition(map, in, {true, mask})
                             : gated(map, in, {true, mask, 4, 2});
          },
          {x.q, x.k, x.v, logits});
      EXPECT_LE(result.error, 1e-7) << result.worst_input << " " << quadratic << mask.defined();
    }
}

TEST(Gated, GradientsOfLogitsInFloat) {
  const Map map = make_feature_map("exp", 1);
  const auto gradients = [&](DType dtype, bool quadratic) {
    const Problem p = problem(
        150, [](int64_t n) { return n % 50 == 7  ? -18.0
                                    : n % 3 == 0 ? 25.0
                                                 : 1.0; }, dtype);
    const AttentionInputs in = with_logits(p, true);
    backward(quadratic ? definition(map, in, {}) : gated(map, in, {}), p.x.dy);
    return std::vector<Tensor>{in.q.grad(), in.k.grad(), in.v.grad(), in.gate.grad()};
  };
  const std::vector<Tensor> found = gradients(DType::f32, false),
                            expected = gradients(DType::f64, true);
  for (size_t i = 0; i < 4; ++i) EXPECT_LE(relative_error(found[i], expected[i]), 1e-4) << i;
}

// Head h remembers for 2^(h+1) positions at first, up to 128.
TEST(Gated, InitialGates) {
  AttentionOptions options;
  options.settings["rule"] = "gated";
  options.heads = 9;
  const auto attention = make_attention(options);
  EXPECT_EQ(attention->gate().size, 1);
  EXPECT_TRUE(attention->traits().causal_only);
  for (int64_t head = 0; head < 9; ++head) {
    const double g = 1 / (1 + std::exp(-attention->gate().initial_bias[static_cast<size_t>(head)]));
    EXPECT_NEAR(1 / (1 - g), std::exp2(static_cast<double>(std::min<int64_t>(head, 6) + 1)), 0.01)
        << head;
  }
}

}  // namespace
}  // namespace linea::gated_tests

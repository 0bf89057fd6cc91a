// Gated DeltaNet: its formula in every form, the rules that it becomes at its limits, extreme decays.
#include <algorithm>

#include "tests/expect_error.h"
#include "tests/nn/attention/decay_problem.h"

namespace linea {
namespace {

using namespace decay_tests;

const Settings kGatedDelta = {
    {"rule", "gated-delta"}, {"key_norm", "unit"}, {"feature", "identity"}};

TEST(Gdn, EveryFormIsTheFormula) { expect_forms_agree("gdn", {}, {}, 1, true); }

TEST(Gdn, IsFiniteAtExtremeDecays) { expect_finite_at_extreme_decays("gdn", {}, 1, true); }

TEST(Gdn, StepsAreTheParallelForm) { expect_long_steps("gdn", {}, 1, true); }

// A number that follows from the formula: with orthogonal keys nothing is corrected.
TEST(Gdn, DecaysWhatItHolds) {
  const Sizes sizes{1, 1, 2, 1, 1};
  const auto one = [](double first, double second) {
    return Tensor::from(std::vector<double>{first, second}, {1, 1, 2, 1});
  };
  Problem p{{one(3, 3), one(2, 2), one(5, 0), one(1, 1), {}},
            Tensor::from(std::vector<double>{0.5, 0}, {1, 1, 2}),
            one(-1, -2)};
  EXPECT_NEAR(
      run(*attention("gdn", {}, sizes, DType::f64), &Attention::forward, p).y.to_doubles()[1],
      2.5 * std::exp(-2), 1e-15);
}

TEST(Gdn, WithoutDecayIsTheDeltaRuleOfUnitKeys) {
  const Sizes sizes{2, 2, 97, 5, 3};
  const Problem p = problem(sizes, DType::f64, 1, true, [](int64_t, int64_t) { return 0.0; });
  Problem plain = p;
  plain.log_decay = {};
  const Settings delta = {{"feature", "silu"}, {"rule", "delta"}, {"key_norm", "unit"}};
  const Outcome found = run(*attention("gdn", {}, sizes, DType::f64), &Attention::forward, p),
                expected =
                    run(*attention("linear", delta, sizes, DType::f64), &Attention::forward, plain);
  EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
  EXPECT_LE(relative_error(found.dk, expected.dk), 1e-12);
}

TEST(Gdn, WritesNothingAtABetaOfZero) {
  const Sizes sizes{1, 2, 50, 5, 3};
  Problem p = problem(sizes, DType::f64, 1, true, mixed_decay);
  p.beta = Tensor::zeros(p.beta.shape(), DType::f64);
  const Tensor y = run(*attention("gdn", {}, sizes, DType::f64), &Attention::forward, p).y;
  EXPECT_EQ(conformance::largest(y, conformance::anywhere), 0);
}

// A key of length 0 has no direction: it is 0, writes nothing, and no gradient is infinite.
TEST(Gdn, KeysOfZeroWriteNothing) {
  const Sizes sizes{1, 2, 50, 5, 3};
  for (const char* name : {"gdn", "kda"}) {
    Problem p = problem(sizes, DType::f64, std::string(name) == "kda" ? 5 : 1, true, mixed_decay);
    p.x.k = Tensor::zeros(p.x.k.shape(), DType::f64);
    for (const conformance::Method method : {&Attention::forward, &Attention::quadratic}) {
      const Outcome found = run(*attention(name, {}, sizes, DType::f64), method, p);
      EXPECT_EQ(conformance::largest(found.y, conformance::anywhere), 0) << name;
      for (const auto& [gradient, value] : found.gradients())
        EXPECT_EQ(ops::count_nonfinite(value), 0) << name << " " << gradient;
    }
  }
}

// Keys of an orthonormal basis, each seen twice, are bound to the later of their two values.
TEST(Gdn, RecallsAsManyPairsAsKeysHaveNumbers) {
  constexpr int64_t D = 8, M = 3;
  const Sizes sizes{1, 1, 3 * D, D, M};
  Problem p = problem(sizes, DType::f64, 1, true, [](int64_t, int64_t) { return 0.0; });
  std::vector<double> basis(static_cast<size_t>(3 * D * D));
  for (int64_t i = 0; i < 3 * D; ++i) basis[static_cast<size_t>(i * D + i % D)] = 1;
  p.x.q = p.x.k = Tensor::from(basis, p.x.k.shape());
  std::vector<double> beta(static_cast<size_t>(3 * D), 1.0);
  std::fill(beta.begin() + 2 * D, beta.end(), 0.0);
  p.beta = Tensor::from(beta, p.beta.shape());
  const std::vector<double> v = p.x.v.to_doubles(),
                            y = run(*attention("linear", kGatedDelta, sizes, DType::f64),
                                    &Attention::forward, p)
                                    .y.to_doubles();
  for (int64_t i = 2 * D; i < 3 * D; ++i)
    for (int64_t m = 0; m < M; ++m)
      EXPECT_NEAR(y[static_cast<size_t>(i * M + m)] * std::sqrt(static_cast<double>(D)),
                  v[static_cast<size_t>((i - D) * M + m)], 1e-12);
}

// beta up to 2 turns a value around: I - 2 k k^T has the eigenvalue -1.
TEST(Gdn, ABetaOfTwoChangesSigns) {
  const Sizes sizes{1, 1, 2, 1, 1};
  const auto mechanism = attention("gdn", {{"beta_range", int64_t{2}}}, sizes, DType::f64);
  EXPECT_EQ(mechanism->gate().parts()[0].max, 2);
  const auto two = [](double first, double second) {
    return Tensor::from(std::vector<double>{first, second}, {1, 1, 2, 1});
  };
  const Problem p{{two(1, 1), two(1, 1), two(1, 0), two(1, 1), {}},
                  Tensor::from(std::vector<double>{1, 2}, {1, 1, 2}),
                  two(0, 0)};
  EXPECT_EQ(run(*mechanism, &Attention::forward, p).y.to_doubles(), (std::vector<double>{1, -1}));
  AttentionInputs in{Var(p.x.q), Var(p.x.k), Var(p.x.v),
                     Var(Tensor::full({1, 1, 2, 2}, DType::f64, 1e3))};
  in.gate_form = GateForm::logit;  // decays by all, then writes 2 v
  EXPECT_EQ(mechanism->forward(in, {}).value().to_doubles()[0], 2);
}

TEST(Gdn, StartsFromDeclaredDecays) {
  AttentionOptions options = options_of("gdn", 8, 4, 4, DType::f32);
  const auto start = [&] {
    const std::unique_ptr<Attention> gdn = make_attention(options);
    return std::pair(gdn->parameters()[0].var.value().to_doubles(), gdn->gate().initial_bias);
  };
  const auto first = start();
  EXPECT_EQ(start(), first);
  std::vector<double> steps;
  for (size_t head = 0; head < 8; ++head) {
    EXPECT_GT(std::exp(first.first[head]), 1);
    EXPECT_LT(std::exp(first.first[head]), 16);
    EXPECT_EQ(first.second[2 * head], 0);  // of beta
    steps.push_back(std::log1p(std::exp(first.second[2 * head + 1])));
    EXPECT_GT(steps.back(), 1e-3);
    EXPECT_LT(steps.back(), 0.1);
  }
  std::sort(steps.begin(), steps.end());
  EXPECT_LT(std::adjacent_find(steps.begin(), steps.end()), steps.end() + 1);
  EXPECT_GT(steps.back() / steps.front(), 3);
  options.layer = 1;
  EXPECT_NE(start(), first);
  options.layer = 0;
  options.seed = 2;
  EXPECT_NE(start(), first);
}

TEST(Gdn, RefusesWhatHasNoMeaning) {
  const auto refused = [](const Settings& settings, std::initializer_list<std::string> words) {
    expect_error(ErrorKind::usage, words,
                 [&] { attention("linear", settings, Sizes{}, DType::f32); });
  };
  refused({{"feature", "silu"}}, {"`feature` silu", "both signs", "`key_norm` unit or none"});
  refused({{"feature", "identity"}, {"rule", "delta"}}, {"`feature` identity", "both signs"});
  refused({{"feature", "exp"}, {"rule", "delta"}, {"key_norm", "unit"}}, {"exp", "logs", "sum"});
  refused({{"rule", "delta"}, {"key_norm", "none"}}, {"`key_norm` none", "delta", "unit or sum"});
  refused({{"rule", "decay"}, {"key_norm", "unit"}, {"beta_range", int64_t{2}}},
          {"`beta_range`", "decay"});
  refused({{"rule", "gated-delta"}, {"key_norm", "unit"}, {"memory", "long"}}, {"`memory`"});
  refused({{"rule", "gated"}, {"decay", "fixed"}}, {"`decay`", "`rule`"});
  refused({{"rule", "delta"}, {"beta_range", int64_t{2}}}, {"`beta_range`", "`key_norm`"});
}

}  // namespace
}  // namespace linea

// The rule of plain sums, as Mamba-2 has it (ssd) and with constant decays (retnet).
#include "tests/nn/attention/decay_problem.h"

namespace linea {
namespace {

using namespace decay_tests;

const Formula kSsd{.silu = true, .unit = false, .corrects = false};

double retention(int64_t head) { return std::log1p(-std::exp2(-5.0 - static_cast<double>(head))); }

TEST(Ssd, EveryFormIsTheFormula) { expect_forms_agree("ssd", {}, kSsd, 1, true); }

TEST(Ssd, IsFiniteAtExtremeDecays) { expect_finite_at_extreme_decays("ssd", {}, 1, true); }

TEST(Ssd, StepsAreTheParallelForm) { expect_long_steps("ssd", {}, 1, true); }

// Delta is the weight of what is written and, times A, what the state decays by.
TEST(Ssd, OneLogitWeighsAndDecays) {
  const Sizes sizes{2, 2, 30, 4, 3};
  const auto ssd = attention("ssd", {}, sizes, DType::f64);
  ASSERT_EQ(ssd->gate().size, 1);
  Problem p = problem(sizes, DType::f64, 1, true, mixed_decay);
  const std::vector<double> u = random_tensor({2, 2, 30, 1}, 7).to_doubles(),
                            log_rates = ssd->parameters()[0].var.value().to_doubles();
  std::vector<double> weights, logs;
  for (size_t i = 0; i < u.size(); ++i) {
    weights.push_back(std::log1p(std::exp(u[i])));
    logs.push_back(-std::exp(log_rates[i / 30 % 2]) * weights.back());
  }
  p.beta = Tensor::from(weights, p.beta.shape());
  p.log_decay = Tensor::from(logs, p.log_decay.shape());
  AttentionInputs in{Var(p.x.q), Var(p.x.k), Var(p.x.v), Var(Tensor::from(u, {2, 2, 30, 1}))};
  in.gate_form = GateForm::logit;
  EXPECT_LE(relative_error(ssd->forward(in, {}).value(), by_loops(kSsd, p)), 1e-12);
}

TEST(Retnet, EveryFormIsTheFormula) {
  for (const int64_t length : {1, 64, 131}) {
    const Sizes sizes{2, 3, length, 5, 3};
    Problem p = problem(sizes, DType::f64, 0, false, {});
    Problem given = p;
    std::vector<double> logs;
    for (int64_t row = 0; row < 6 * length; ++row) logs.push_back(retention(row / length % 3));
    given.log_decay = Tensor::from(logs, {2, 3, length, 1});
    const Tensor expected = by_loops({.silu = false, .unit = false, .corrects = false}, given);
    for (const auto& [segment, chunk] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {40, 16}}) {
      const auto retnet = attention("retnet", {}, sizes, DType::f64, segment, chunk);
      EXPECT_LE(relative_error(run(*retnet, &Attention::forward, p).y, expected), 1e-12);
      EXPECT_LE(relative_error(run(*retnet, &Attention::quadratic, p).y, expected), 1e-12);
      EXPECT_LE(relative_error(by_steps(*retnet, p), expected), 1e-12);
    }
  }
}

// Weights of 1, and the constants of heads as decays.
TEST(Retnet, IsSsdWithConstantGates) {
  const Sizes sizes{1, 3, 97, 4, 6};
  const Settings sums = {{"feature", "identity"}, {"rule", "decay"}, {"key_norm", "none"}};
  const Problem none = problem(sizes, DType::f64, 0, false, {});
  Problem p = none;
  std::vector<double> logs;
  for (int64_t row = 0; row < 3 * 97; ++row) logs.push_back(retention(row / 97));
  p.log_decay = Tensor::from(logs, {1, 3, 97, 1});
  p.beta = Tensor::full({1, 3, 97}, DType::f64, 1.0);
  const Outcome found = run(*attention("retnet", {}, sizes, DType::f64), &Attention::forward, none),
                expected =
                    run(*attention("linear", sums, sizes, DType::f64), &Attention::forward, p);
  EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
  EXPECT_LE(relative_error(found.dk, expected.dk), 1e-12);
  EXPECT_LE(relative_error(found.dv, expected.dv), 1e-12);
}

TEST(Retnet, StepsAreTheParallelForm) { expect_long_steps("retnet", {}, 0, false); }

}  // namespace
}  // namespace linea

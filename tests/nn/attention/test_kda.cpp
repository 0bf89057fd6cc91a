// Decays of each feature, with correction (kda) and without (gla): their formula in every form, the rules
// that they become at their limits, extreme decays.
#include "tests/nn/attention/decay_problem.h"

namespace linea {
namespace {

using namespace decay_tests;

const Formula kGla{.silu = false, .unit = false, .corrects = false};

TEST(Kda, EveryFormIsTheFormula) { expect_forms_agree("kda", {}, {}, 5, true); }

TEST(Gla, EveryFormIsTheFormula) { expect_forms_agree("gla", {}, kGla, 5, false); }

TEST(Kda, IsFiniteAtExtremeDecays) { expect_finite_at_extreme_decays("kda", {}, 8, true); }

TEST(Gla, IsFiniteAtExtremeDecays) { expect_finite_at_extreme_decays("gla", {}, 8, false); }

TEST(Kda, StepsAreTheParallelForm) { expect_long_steps("kda", {}, 8, true); }

TEST(Gla, StepsAreTheParallelForm) { expect_long_steps("gla", {}, 8, false); }

// Chunks whose last band is not full, keys that end inside of one, and sequences of other lengths.
TEST(Kda, BandsThatAreNotFull) {
  for (const int64_t length : {15, 16, 18, 31, 33, 50}) {
    const Sizes sizes{3, 2, length, 4, 3};
    const Problem p = problem(sizes, DType::f64, 4, true, mixed_decay);
    const Tensor valid = Tensor::from(
        std::vector<int32_t>{static_cast<int32_t>(length), static_cast<int32_t>(length / 2), 0},
        {3});
    const auto pass = [&](conformance::Method method) {
      AttentionInputs in{Var(p.x.q, true), Var(p.x.k, true), Var(p.x.v, true),
                         Var(gates_of(p), true)};
      Outcome outcome = conformance::run(*attention("kda", {}, sizes, DType::f64, 0, 64), method,
                                         in, p.x.dy, {true, valid});
      outcome.dparameters.clear();
      return outcome;
    };
    const Outcome found = pass(&Attention::forward), expected = pass(&Attention::quadratic);
    EXPECT_LE(relative_error(found.y, expected.y), 1e-12) << length;
    EXPECT_LE(conformance::gradient_error(found, expected), 1e-10) << length;
  }
}

// Channels that decay alike are the head's decay, whose gradient is the sum of theirs.
TEST(Kda, EqualChannelsAreTheDecayOfTheHead) {
  const Sizes sizes{2, 2, 131, 5, 3};
  const auto decay = [](int64_t position, int64_t) { return mixed_decay(position, 0); };
  for (const auto& [of_channels, of_heads, weighs] :
       std::vector<std::tuple<Settings, Settings, bool>>{
           {{{"rule", "gated-delta"}, {"decay", "channel"}, {"key_norm", "unit"}},
            {{"rule", "gated-delta"}, {"key_norm", "unit"}},
            true},
           {{{"rule", "decay"}, {"decay", "channel"}}, {{"rule", "decay"}}, false}}) {
    const Problem channels = problem(sizes, DType::f64, 5, weighs, decay);
    Problem head = problem(sizes, DType::f64, 1, true, decay);
    if (!weighs) head.beta = Tensor::full(head.beta.shape(), DType::f64, 1.0);
    const Outcome found = run(*attention("linear", of_channels, sizes, DType::f64),
                              &Attention::forward, channels),
                  expected = run(*attention("linear", of_heads, sizes, DType::f64),
                                 &Attention::forward, head);
    EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
    EXPECT_LE(relative_error(found.dq, expected.dq), 1e-12);
    EXPECT_LE(relative_error(found.dk, expected.dk), 1e-11);
    EXPECT_LE(relative_error(found.dv, expected.dv), 1e-12);
    const int64_t width = found.dgate.size(3), first = weighs ? 1 : 0;
    const std::vector<double> each = found.dgate.to_doubles(), all = expected.dgate.to_doubles();
    for (size_t row = 0; row < all.size() / 2; ++row) {
      double sum = 0;
      for (int64_t f = first; f < width; ++f)
        sum += each[row * static_cast<size_t>(width) + static_cast<size_t>(f)];
      EXPECT_NEAR(sum, all[2 * row + 1], 1e-10);
    }
  }
}

// u = 0 makes a^16 = 1/2 in every channel of gla, at first.
TEST(Gla, DecaysByTheSixteenthRootOfAGate) {
  const Sizes sizes{1, 1, 17, 1, 1};
  const auto gla = attention("gla", {}, sizes, DType::f64);
  EXPECT_EQ(gla->gate().rank, 16);
  EXPECT_TRUE(gla->parameters().empty());
  std::vector<double> v(17);
  v[0] = 3;
  const Tensor ones = Tensor::full({1, 1, 17, 1}, DType::f64, 1.0);
  AttentionInputs in{Var(ones), Var(ones), Var(Tensor::from(v, {1, 1, 17, 1})),
                     Var(Tensor::zeros({1, 1, 17, 1}, DType::f64))};
  in.gate_form = GateForm::logit;
  EXPECT_NEAR(gla->forward(in, {}).value().to_doubles()[16], 1.5, 1e-14);
}

TEST(Kda, GatesAreOfTheRankOfAHead) {
  const auto rank = [](const std::string& name, const Settings& settings) {
    return attention(name, settings, Sizes{1, 2, 1, 6, 4}, DType::f32)->gate();
  };
  EXPECT_EQ(rank("kda", {}).rank, 6);
  EXPECT_EQ(rank("kda", {}).size, 7);
  EXPECT_EQ(rank("kda", {{"gate_rank", int64_t{3}}}).rank, 3);
  EXPECT_EQ(rank("gla", {}).size, 6);
  EXPECT_EQ(rank("gdn", {}).rank, 0);
}

}  // namespace
}  // namespace linea

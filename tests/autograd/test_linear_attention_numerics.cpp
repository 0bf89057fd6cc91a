// Logs in float where the numbers behind them overflow, underflow or are hundreds of e-folds apart:
// the chunked form against the definition, which sums every weight by itself in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/linear_attention.h"
#include "autograd/update_rule.h"
#include "nn/attention.h"
#include "nn/feature_map.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

namespace linea::numerics_tests {
namespace {

using namespace conformance;
using Map = std::shared_ptr<const FeatureMap>;

constexpr double kNone = -std::numeric_limits<double>::infinity();

// log phi(x) = x, and the log of 0 below -1000: features that some keys do not have.
class Logs final : public FeatureMap {
 public:
  int64_t features(int64_t key_size) const override { return key_size; }
  FeatureKind kind() const override { return FeatureKind::logs; }
  Features forward(const Tensor& x, Side, const HeadRange&) const override {
    std::vector<double> values = x.to_doubles();
    for (double& value : values)
      if (value < -1000) value = kNone;
    const Tensor rows(x.shape(), x.dtype());
    write_values(values, rows);
    return {rows, {}, {}};
  }
  Tensor backward(const Tensor&, const Features&, const Features& gradient, Side, const HeadRange&,
                  const std::vector<Tensor>&) const override {
    return gradient.rows;
  }
};

Inputs inputs(int64_t N, int64_t D, int64_t M = 6) { return draw({1, 2, N, D, M}, DType::f32); }

// x[.., n, d] = change(its value, n, d)
template <typename Change>
Tensor changed(const Tensor& x, const Change& change) {
  std::vector<double> values = x.to_doubles();
  const int64_t N = x.size(2), D = x.size(3);
  for (int64_t i = 0; i < x.numel(); ++i)
    values[static_cast<size_t>(i)] = change(values[static_cast<size_t>(i)], i / D % N, i % D);
  const Tensor result(x.shape(), x.dtype());
  write_values(values, result);
  return result;
}

template <typename Form>
Outcome run_form(const Form& form, const Inputs& x) {
  const Var q(x.q, true), k(x.k, true), v(x.v, true);
  const Var y = form(AttentionInputs{q, k, v, Var()});
  backward(y, x.dy);
  return {y.value(), q.grad(), k.grad(), v.grad()};
}

Outcome chunked_form(const Map& map, const Inputs& x, const LinearAttentionOptions& options) {
  return run_form([&](const AttentionInputs& in) { return linear_attention(map, in, {}, options); },
                  x);
}
Outcome definition(const Map& map, const Inputs& x, bool causal) {
  return run_form(
      [&](const AttentionInputs& in) {
        return sum_rule()->quadratic(sum_rule()->inputs(map, in, {causal, {}}), {causal, {}});
      },
      in_dtype(x, DType::f64));
}

// Where one key outweighs the others the true dq and dk are 0: their errors count against 1, the
// size of dy and v. Both directions, in the default segments and in small ones; and step by
// step.
void expect_close(const Map& map, const Inputs& x, double bound, const std::string& what) {
  for (const bool causal : {true, false}) {
    const Outcome expected = definition(map, x, causal);
    for (const bool cut : {false, true}) {
      const std::string where =
          what + (causal ? ", causal" : ", not causal") + (cut ? ", cut" : "");
      const Outcome found = chunked_form(map, x, {causal, {}, cut ? 40 : 0, cut ? 16 : 0});
      EXPECT_LE(relative_error(found.y, expected.y), bound) << where;
      EXPECT_LE(relative_error(found.dq, expected.dq, 1.0), bound) << where << ", dq";
      EXPECT_LE(relative_error(found.dk, expected.dk, 1.0), bound) << where << ", dk";
      EXPECT_LE(relative_error(found.dv, expected.dv), bound) << where << ", dv";
    }
    if (!causal) continue;
    AttentionOptions options;
    options.heads = x.q.size(1);
    options.key_size = x.q.size(3);
    options.value_size = x.v.size(3);
    const auto state = std::make_unique<LinearState>(
        *map, x.q.size(0), options.heads, options.key_size, options.value_size, DType::f32, false);
    for (int64_t n = 0; n < x.q.size(2); ++n) {
      const Tensor y = linear_step(
          *map, *state,
          {Var(at_position(x.q, n)), Var(at_position(x.k, n)), Var(at_position(x.v, n)), Var()},
          {});
      EXPECT_LE(relative_error(y, at_position(expected.y, n), 1.0), bound)
          << what << ", step " << n;
    }
  }
}

Map exponential() { return make_feature_map("exp", 1); }

// Where a key's features are large a query's are small, and the other way round: scaled by their
// largest, every product of two features is 0 in float. The rows are summed by logs.
TEST(LinearAttentionNumerics, ProductsThatUnderflow) {
  for (const double apart : {30.0, 50.0, 110.0, 400.0}) {
    Inputs x = inputs(100, 6);
    x.k = changed(x.k, [&](double a, int64_t, int64_t d) { return a + (d < 3 ? apart : -apart); });
    x.q = changed(x.q, [&](double a, int64_t, int64_t d) { return a - (d < 3 ? apart : -apart); });
    expect_close(exponential(), x, apart > 100 ? 1e-4 : 1e-5, fmt::format("{} apart", apart));
  }
  // Only some rows; and keys of both kinds.
  Inputs x = inputs(100, 6);
  x.k = changed(
      x.k, [](double a, int64_t n, int64_t d) { return a + ((d < 3) == (n < 20) ? 55 : -55); });
  x.q = changed(
      x.q, [](double a, int64_t n, int64_t d) { return n % 3 == 0 ? a : a + (d < 3 ? -55 : 55); });
  expect_close(exponential(), x, 1e-5, "keys of two kinds");
}

// q = -k of the Performer: the omegas that a key likes best a query likes least.
TEST(LinearAttentionNumerics, QueriesOppositeToKeys) {
  AttentionOptions options;
  options.name = "performer";
  options.heads = 2;
  options.key_size = 8;
  options.value_size = 6;
  for (const char* feature : {"positive", "hyperbolic"}) {
    options.settings["feature"] = feature;
    Inputs x = inputs(130, 8);
    x.k = changed(x.k, [](double a, int64_t n, int64_t d) { return (d == n % 2 ? 25 : 0) + a; });
    x.q = changed(x.k, [](double a, int64_t, int64_t) { return -a; });
    options.dtype = DType::f64;
    const auto precise = make_attention(options);
    options.dtype = DType::f32;
    const auto attention = make_attention(options);
    for (const bool causal : {true, false}) {
      const Outcome expected =
          run(*precise, &Attention::quadratic, in_dtype(x, DType::f64), {causal, {}});
      const Outcome found = run(*attention, &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 2e-4)
          << feature << causal;  // logs of some hundred
      EXPECT_LE(gradient_error(found, expected), 5e-4) << feature << causal;
    }
  }
}

TEST(LinearAttentionNumerics, KeysThatGrowOrFallAlongTheSequence) {
  for (const double grad : {0.05, 0.7, 3.0, -0.05, -0.7, -3.0}) {
    Inputs x = inputs(200, 5);
    x.k = changed(x.k,
                  [&](double a, int64_t n, int64_t) { return a + grad * static_cast<double>(n); });
    expect_close(exponential(), x, std::abs(grad) > 1 ? 1e-4 : 1e-5, fmt::format("grad {}", grad));
  }
  // Each feature in another direction.
  Inputs x = inputs(200, 5);
  x.k = changed(x.k, [](double a, int64_t n, int64_t d) {
    return a + 0.3 * static_cast<double>(n * (d - 2));
  });
  expect_close(exponential(), x, 1e-5, "several grads");
}

TEST(LinearAttentionNumerics, OneHugeKeyAtTheEnd) {
  const int64_t N = 150;
  const Inputs x = inputs(N, 5);
  const auto before_end = [](int64_t, int64_t n) { return n < N - 1; };
  for (const double huge : {50.0, 100.0, 1e4, 1e30}) {
    Inputs with = x;
    with.k = changed(x.k, [&](double a, int64_t n, int64_t) { return n == N - 1 ? huge + a : a; });
    for (const int64_t segment : {0, 40}) {
      const Outcome plain = chunked_form(exponential(), x, {true, {}, segment, 0});
      const Outcome found = chunked_form(exponential(), with, {true, {}, segment, 0});
      EXPECT_EQ(different_bits(plain.y, found.y, before_end), 0) << huge;
      EXPECT_EQ(different_bits(plain.dq, found.dq, before_end), 0) << huge;
      for (const Tensor& t : {found.y, found.dq, found.dk, found.dv})
        EXPECT_EQ(ops::count_nonfinite(t), 0) << huge;
      EXPECT_LE(relative_error(at_position(found.y, N - 1), at_position(x.v, N - 1)), 1e-6) << huge;
    }
    if (huge < 1e3) expect_close(exponential(), with, 1e-5, fmt::format("a key of {}", huge));
  }
  // And at the beginning: it outweighs all that follows.
  Inputs first = x;
  first.k = changed(x.k, [](double a, int64_t n, int64_t) { return n == 0 ? 200 + a : a; });
  expect_close(exponential(), first, 1e-5, "a first key of 200");
}

TEST(LinearAttentionNumerics, IdenticalKeys) {
  for (const double level : {0.0, 90.0, -90.0, 500.0}) {
    Inputs x = inputs(300, 5);
    x.k = Tensor::full(x.k.shape(), DType::f32, level);
    const Outcome found = chunked_form(exponential(), x, {});
    const std::vector<double> v = x.v.to_doubles(), y = found.y.to_doubles();
    for (size_t m = 0; m < 6; ++m) {  // the running mean of v
      double sum = 0;
      for (size_t n = 0; n < 300; ++n) {
        sum += v[n * 6 + m];
        ASSERT_NEAR(y[n * 6 + m], sum / static_cast<double>(n + 1), 3e-6) << level;
      }
    }
    expect_close(exponential(), x, 1e-5, fmt::format("keys of {}", level));
  }
}

// A state that no single scale holds; queries that weigh its features alike again.
TEST(LinearAttentionNumerics, FeaturesFarApartInTheState) {
  for (const double apart : {15.0, 45.0, 120.0, 300.0}) {
    Inputs x = inputs(150, 7);
    x.k = changed(
        x.k, [&](double a, int64_t, int64_t d) { return a + apart * static_cast<double>(d - 3); });
    x.q = changed(
        x.q, [&](double a, int64_t, int64_t d) { return a - apart * static_cast<double>(d - 3); });
    expect_close(exponential(), x, apart > 100 ? 2e-4 : 3e-5,
                 fmt::format("features {} apart", apart));
  }
  // Features that come into the state late, and queries that look for one only.
  Inputs x = inputs(150, 7);
  x.k = changed(x.k, [](double a, int64_t n, int64_t d) {
    return a + (n > 20 * d ? 60.0 * static_cast<double>(d) : -200.0);
  });
  x.q = changed(x.q, [](double a, int64_t n, int64_t d) { return a + (d == n % 7 ? 300.0 : 0.0); });
  expect_close(exponential(), x, 2e-4, "late features");
}

TEST(LinearAttentionNumerics, LogsOfZero) {
  const Map map = std::make_shared<Logs>();
  Inputs x = inputs(120, 6);
  // Features 0..2 of even keys, 3..5 of odd ones; feature 5 of none before 50.
  x.k = changed(x.k, [](double a, int64_t n, int64_t d) {
    const bool there = (d < 3) == (n % 2 == 0) && (d != 5 || n >= 50);
    return there ? a : -2000.0;
  });
  expect_close(map, x, 1e-5, "keys without some features");
  // Queries of one feature: of 5 no key has anything before 51.
  x.q = changed(x.q, [](double a, int64_t n, int64_t d) {
    return d == (n % 4 == 0 ? 5 : n % 5) ? a : -2000.0;
  });
  expect_close(map, x, 1e-5, "queries of one feature");
  const Outcome found = chunked_form(map, x, {});
  const auto alone = [](int64_t, int64_t n) { return n < 50 && n % 4 == 0; };
  EXPECT_EQ(largest(found.y, alone), 0.0);
  EXPECT_EQ(largest(found.dq, alone), 0.0);
}

// Keys and queries of which every feature is 0.
TEST(LinearAttentionNumerics, RowsOfZeros) {
  const Map map = std::make_shared<Logs>();
  Inputs x = inputs(120, 6);
  x.k =
      changed(x.k, [](double a, int64_t n, int64_t) { return n < 3 || n % 5 == 0 ? -2000.0 : a; });
  x.q = changed(x.q, [](double a, int64_t n, int64_t) { return n % 7 == 6 ? -2000.0 : a; });
  expect_close(map, x, 1e-5, "rows of nothing");
  const auto alone = [](int64_t, int64_t n) { return n < 3 || n % 7 == 6; };
  EXPECT_EQ(largest(chunked_form(map, x, {}).y, alone), 0.0);
}

// Standard stddev 8 at D = 64, for outputs, gradients and steps.
TEST(LinearAttentionNumerics, LargeInputs) {
  AttentionOptions options;
  options.heads = 2;
  options.key_size = 64;
  options.value_size = 16;
  const Inputs x = draw({1, 2, 190, 64, 16}, DType::f32, 8.0), wide = in_dtype(x, DType::f64);
  for (const char* name :
       {"linear exp sum", "linear exp gated", "linear elu gated", "performer positive sum",
        "performer hyperbolic sum", "soft-vq  sum", "vq  sum"}) {
    std::string words = name;
    options.name = words.substr(0, words.find(' '));
    words = words.substr(words.find(' ') + 1);
    options.settings = declared_only(options.name, {{"feature", words.substr(0, words.find(' '))},
                                                    {"rule", words.substr(words.find(' ') + 1)}});
    options.dtype = DType::f64;
    const auto precise = make_attention(options);
    options.dtype = DType::f32;
    const auto attention = make_attention(options);
    for (const bool causal : {true, false}) {
      if (!causal && attention->traits().causal_only) continue;
      const Outcome expected = run(*precise, &Attention::quadratic, wide, {causal, {}});
      const Outcome found = run(*attention, &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-3) << name << causal;
      EXPECT_LE(gradient_error(found, expected), 1e-3) << name << causal;
      if (!causal) continue;
      const auto state = attention->start(1, DType::f32);
      for (int64_t n = 0; n < 190; ++n)
        EXPECT_LE(relative_error(attention->step(*state, step_at(*attention, x, n)),
                                 at_position(expected.y, n), 1.0),
                  1e-3)
            << name << ", step " << n;
    }
  }
}

}  // namespace
}  // namespace linea::numerics_tests

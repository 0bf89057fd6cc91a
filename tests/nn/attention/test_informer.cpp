// Queries chosen by the spread of their scores: limits, means, choices that are alike everywhere, and what known
// implementations leak.
#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention/future.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> informer(int64_t factor, const Sizes& sizes, DType dtype,
                                    uint64_t seed = 1) {
  AttentionOptions options =
      options_of("informer", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings["factor"] = factor;
  options.length = sizes.length;
  options.seed = seed;
  return make_attention(options);
}

std::vector<int32_t> selected_rows(const Attention& attention, const Inputs& x,
                                   const AttentionMask& mask, Method method = &Attention::forward) {
  return run(attention, method, x, mask).decisions.at(0).to_vector<int32_t>();
}

TEST(Informer, OfAllRowsIsSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  for (const bool causal : {true, false})
    for (const int64_t factor : {18, 60000}) {  // ceil(ln 90) = 5
      const Outcome expected = run(*softmax, &Attention::forward, x, {causal, {}}),
                    found = run(*informer(factor, sizes, DType::f64), &Attention::forward, x,
                                {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
      EXPECT_LE(gradient_error(found, expected), 1e-12);
    }
}

// Rows that are not selected are means; the others are those of softmax.
TEST(Informer, OtherRowsAreMeans) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  const std::vector<double> v = x.v.to_doubles();
  for (const bool causal : {true, false}) {
    const Outcome found =
        run(*informer(2, sizes, DType::f64), &Attention::forward, x, {causal, {}});
    const std::vector<int32_t> selected = found.decisions.at(0).to_vector<int32_t>();
    const std::vector<double> y = found.y.to_doubles(),
                              all = run(*softmax, &Attention::forward, x, {causal, {}})
                                        .y.to_doubles();
    for (size_t at = 0; at < y.size(); ++at) {
      const size_t row = at / 7, first = row / 150 * 150, end = causal ? row + 1 : first + 150;
      double sum = 0;
      for (size_t j = first; j < end; ++j) sum += v[j * 7 + at % 7];
      const double expected = selected[row] > 0 ? all[at] : sum / static_cast<double>(end - first);
      EXPECT_NEAR(y[at], expected, 1e-12) << row;
    }
  }
}

// Not causal: 2 ceil(ln 700) of 700 rows; causal about u (1 + ln(N / u)), at first all.
TEST(Informer, SelectsAsManyRows) {
  const Sizes sizes{1, 4, 700, 8, 2};
  const Inputs x = draw(sizes, DType::f32);
  const auto count = [&](const std::vector<int32_t>& selected, int64_t head, int64_t rows) {
    return std::count(selected.begin() + head * 700, selected.begin() + head * 700 + rows, 1);
  };
  const auto attention = informer(2, sizes, DType::f32);
  const std::vector<int32_t> all = selected_rows(*attention, x, {false, {}}),
                             causal = selected_rows(*attention, x, {});
  double sum = 0;
  for (int64_t head = 0; head < 4; ++head) {
    EXPECT_EQ(count(all, head, 700), 14);
    EXPECT_EQ(count(causal, head, 14), 14);
    sum += static_cast<double>(count(causal, head, 700)) / 4;
  }
  EXPECT_NEAR(sum, 14 * (1 + std::log(700.0 / 14)), 15);
}

// Row 41 has uneven scores, as soon as its random keys are not all alike; those of the others are 0.
TEST(Informer, ChoosesTheUnevenRow) {
  const Sizes sizes{1, 1, 60, 2, 1};
  Inputs x = draw(sizes, DType::f64);
  std::vector<double> q(120), k(120);
  q[2 * 41] = 100;
  for (size_t j = 0; j < 60; j += 2) k[2 * j] = 1;
  x.q = Tensor::from(q, x.q.shape());
  x.k = Tensor::from(k, x.k.shape());
  const std::vector<int32_t> all = selected_rows(*informer(2, sizes, DType::f64), x, {false, {}}),
                             causal = selected_rows(*informer(2, sizes, DType::f64), x, {});
  std::vector<int32_t> expected(60);
  std::fill_n(expected.begin(), 9, 1);  // of equals the first, and row 41: 2 ceil(ln 60) = 10
  expected[41] = 1;
  EXPECT_EQ(all, expected);
  expected[9] = 1;  // one of the first 10
  EXPECT_EQ(causal, expected);
}

TEST(Informer, DecidesAlikeInFloatAndDoubleAndWithAnyThreads) {
  const Sizes sizes{2, 3, 300, 8, 4};
  const Inputs x = draw(sizes, DType::f32);
  for (const bool causal : {true, false}) {
    const std::vector<int32_t> expected =
        selected_rows(*informer(3, sizes, DType::f32), x, {causal, {}});
    for (const Method method : {&Attention::forward, &Attention::quadratic})
      EXPECT_EQ(selected_rows(*informer(3, sizes, DType::f64), in_dtype(x, DType::f64),
                              {causal, {}}, method),
                expected);
    for (const int threads : {1, 2, 3}) {
      const Threads own(threads);
      EXPECT_EQ(selected_rows(*informer(3, sizes, DType::f32), x, {causal, {}}), expected);
    }
    EXPECT_NE(selected_rows(*informer(3, sizes, DType::f32, 2), x, {causal, {}}), expected);
  }
}

// Steps select the rows that the whole sequence does.
TEST(Informer, StepsDecideAsRows) {
  const Sizes sizes{2, 2, 140, 5, 4};
  const Inputs x = draw(sizes, DType::f32);
  const auto attention = informer(2, sizes, DType::f32);
  const std::vector<int32_t> expected = selected_rows(*attention, x, {});
  Decisions decisions;
  const auto state = attention->start(2, DType::f32);
  {
    const RecordDecisions record(decisions);
    for (int64_t n = 0; n < 140; ++n) attention->step(*state, step_at(*attention, x, n));
  }
  ASSERT_EQ(decisions.size(), 140u);
  for (size_t n = 0; n < 140; ++n) {
    const std::vector<int32_t> found = decisions[n].to_vector<int32_t>();
    for (size_t bh = 0; bh < 4; ++bh) EXPECT_EQ(found[bh], expected[bh * 140 + n]) << n;
  }
}

TEST(Informer, RowsDoNotDependOnTheFuture) {
  expect_no_future(*informer(3, {1, 2, 260, 5, 4}, DType::f32), 260);
}

// The masked form of other implementations chooses among all rows, and masks later. `leaks` false: its own choice.
template <bool leaks>
class RowsOfTheWholeSequence final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    Decisions decisions;
    {
      const RecordDecisions record(decisions);
      right_->forward(in, {!leaks && mask.causal, mask.valid});
    }
    const ReplayDecisions replay(decisions);
    return right_->forward(in, mask);
  }
};

// And it has the sum of the values where the mean would be.
class SumsOfValues final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    Decisions decisions;
    const RecordDecisions record(decisions);
    const Var y = right_->forward(in, mask);
    const std::vector<int32_t> selected = decisions.at(0).to_vector<int32_t>();
    std::vector<double> factors;
    const auto N = static_cast<size_t>(y.size(2)), M = static_cast<size_t>(y.size(3));
    for (size_t at = 0; at < selected.size() * M; ++at)
      factors.push_back(selected[at / M] > 0 ? 1 : static_cast<double>(at / M % N + 1));
    return multiply(y, Var(Tensor::from(factors, y.shape(), y.dtype())));
  }
};

TEST(Sabotage, QueriesChosenWithTheFuture) {
  AttentionOptions options;
  options.name = "informer";
  options.settings = {{"factor", int64_t{3}}};
  sabotage::expect_caught<RowsOfTheWholeSequence<true>, RowsOfTheWholeSequence<false>>(
      "causality: bits", options);
  sabotage::expect_caught<SumsOfValues>("outputs = quadratic", options);
}

}  // namespace
}  // namespace linea

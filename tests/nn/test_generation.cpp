// Sampling from a model: the tokens depend only on seed, row and position.
#include "nn/generation.h"
#include "nn/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

using Rows = std::vector<std::vector<int32_t>>;
constexpr int64_t kLength = 12;

// Scores far enough apart that a greedy choice does not depend on rounding.
std::unique_ptr<Transformer> some_model(const std::vector<AttentionOptions>& attentions,
                                        double stddev = 0.5,
                                        const std::string& positions = "learned",
                                        int64_t length = kLength) {
  ModelConfig config;
  config.attentions = attentions;
  config.positions = positions;
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 24;
  config.length = length;
  config.vocab_size = 7;
  config.input_vocab_size = 9;
  auto model = std::make_unique<Transformer>(config);
  uint32_t stream_id = 300;
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.var.shape().rank() < 2) continue;
    Var var = parameter.var;
    var.set_value(random_tensor(var.shape(), stream_id++, stddev, 0.0, DType::f32));
  }
  return model;
}

template <typename... Rest>
std::unique_ptr<Transformer> some_model(const std::string& attention, const Rest&... rest) {
  return some_model(parse_attentions(attention), rest...);
}

Rows sample(const Transformer& model, const Rows& prompt, int64_t count, uint64_t seed,
            bool greedy = false, double temperature = 1.0) {
  return sample_tokens(model, {temperature, greedy, seed}, prompt, count);
}

TEST(Generator, TheSameSeedSamplesTheSameTokens) {
  for (const char* attention : {"softmax", "linear"}) {
    const auto model = some_model(attention);
    const Rows prompt = {{7}, {7}, {8}};
    const Rows first = sample(*model, prompt, 30, 3);
    EXPECT_EQ(first, sample(*model, prompt, 30, 3));
    EXPECT_NE(first, sample(*model, prompt, 30, 4));
    EXPECT_NE(first[0], first[1]) << "rows share their random numbers";
    for (const auto& row : first) {
      ASSERT_EQ(row.size(), 30u);
      for (const int32_t token : row) EXPECT_TRUE(token >= 0 && token < 7) << token;
    }
  }
}

TEST(Generator, RowsAreIndependent) {
  for (const char* attention : {"softmax", "linear"}) {
    const auto model = some_model(attention);
    const Rows three = sample(*model, {{7, 1}, {8, 2}, {7, 3}}, 40, 3);
    const Rows others = sample(*model, {{8, 6}, {8, 2}, {8, 0}}, 40, 3);
    EXPECT_EQ(three[1], others[1]) << attention;
    EXPECT_EQ(three[0], sample(*model, {{7, 1}}, 40, 3)[0]) << attention;
  }
}

TEST(Generator, ARowSamplesTheSameInAnyBatch) {
  const auto model = some_model("linear");
  const Rows all = {{7}, {8}, {7}, {8}, {8}};
  SamplingOptions options;
  options.seed = 3;
  const Rows together = sample_tokens(*model, options, all, 20);
  for (const int64_t first : {0, 2, 3}) {
    options.first_row = first;
    const auto begin = static_cast<std::ptrdiff_t>(first);
    EXPECT_EQ(sample_tokens(*model, options, Rows(all.begin() + begin, all.end()), 20),
              Rows(together.begin() + begin, together.end()));
  }
}

TEST(Generator, GreedyFollowsTheParallelForm) {
  for (const char* attention : {"softmax", "linear"}) {
    const auto model = some_model(attention);
    const Rows sampled = sample(*model, {{7, 2}, {8, 5}}, kLength - 1, 1, true);
    for (size_t row = 0; row < 2; ++row) {
      std::vector<int32_t> text =
          row == 0 ? std::vector<int32_t>{7, 2} : std::vector<int32_t>{8, 5};
      const size_t begin = text.size();
      text.insert(text.end(), sampled[row].begin(), sampled[row].end() - 1);
      const NoGrad no_grad;
      const int64_t N = static_cast<int64_t>(text.size());
      ASSERT_EQ(N, kLength);
      const std::vector<int32_t> likeliest =
          ops::argmax(model->forward(Tensor::from(text, {1, N}), false).value())
              .to_vector<int32_t>();
      EXPECT_EQ(sampled[row],
                std::vector<int32_t>(likeliest.begin() + static_cast<std::ptrdiff_t>(begin) - 1,
                                     likeliest.end()))
          << attention;
    }
    EXPECT_EQ(sampled, sample(*model, {{7, 2}, {8, 5}}, kLength - 1, 99, true))
        << "greedy depends on the seed";
  }
}

// After `length` tokens the last half is read again: each later token is what a fresh reading
// gives.
TEST(Generator, ContinuesPastTheLength) {
  for (const char* attention : {"softmax", "linear"}) {
    const auto model = some_model(attention);
    int64_t seen = 0;
    const Rows sampled = sample_tokens(*model, {1.0, true, 1}, {{7}}, 3 * kLength + 5,
                                       [&](const std::vector<int32_t>& tokens) {
                                         EXPECT_EQ(tokens.size(), 1u);
                                         ++seen;
                                         return true;
                                       });
    ASSERT_EQ(sampled[0].size(), static_cast<size_t>(3 * kLength + 5));
    EXPECT_EQ(seen, 3 * kLength + 5);
    std::vector<int32_t> text = {7};
    text.insert(text.end(), sampled[0].begin(), sampled[0].end());
    // text[0, 12) fills the model; from then on windows that begin at 7, 13, 19 ..
    size_t begin = 0;
    for (size_t place = 1; place < text.size(); ++place) {
      if (place - begin > static_cast<size_t>(kLength))
        begin = place - static_cast<size_t>(kLength) / 2;
      const std::vector<int32_t> window(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                        text.begin() + static_cast<std::ptrdiff_t>(place));
      EXPECT_EQ(text[place], sample(*model, {window}, 1, 1, true)[0][0])
          << attention << " at " << place;
    }
  }
}

TEST(Generator, ReadsTheEndOfALongPrompt) {
  const auto model = some_model("linear");
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 3 * kLength; ++i) prompt.push_back(i * i % 7);
  const std::vector<int32_t> tail(prompt.end() - kLength, prompt.end());
  EXPECT_EQ(sample(*model, {prompt}, 25, 1), sample(*model, {tail}, 25, 1));
}

// A model that knows no positions, and whose state does not grow, is the same model at any length.
TEST(Generator, GoesOnFromItsStateWithoutPositions) {
  const Rows prompt = {{7, 2}, {8, 5}};
  for (const char* attention :
       {"linear:rule=gated", "gdn", "ssd/softmax:window=3", "local:block=4"}) {
    const auto model = some_model(attention, 0.5, "none");
    EXPECT_TRUE(model->is_unbounded());
    const auto longer = some_model(attention, 0.5, "none", 8 * kLength);
    const Rows sampled = sample(*model, prompt, 5 * kLength, 1, true);
    EXPECT_EQ(sampled, sample(*longer, prompt, 5 * kLength, 1, true)) << attention;
    Rows read = prompt;  // more than the model's length
    for (size_t row = 0; row < 2; ++row)
      read[row].insert(read[row].end(), sampled[row].begin(), sampled[row].begin() + 30);
    EXPECT_EQ(sample(*model, read, 1, 1, true)[1][0], sampled[1][30]) << attention;
  }
  // Windows and patterns that fit into the length, and that do not.
  for (const AttentionEntry& entry : causal_attentions())
    for (const Settings& variant : entry.variants)
      for (const int64_t length : {kLength, 4 * kLength}) {
        const std::vector<AttentionOptions> attention = {{entry.name, variant}};
        const auto model = some_model(attention, 0.5, "none", length);
        if (!model->is_unbounded()) continue;
        const auto longer = some_model(attention, 0.5, "none", 12 * kLength);
        EXPECT_EQ(sample(*model, prompt, 10 * kLength, 1, true),
                  sample(*longer, prompt, 10 * kLength, 1, true))
            << label_of(attention.front()) << ", length " << length;
      }
  EXPECT_FALSE(some_model("ssd/softmax", 0.5, "none")->is_unbounded());
  EXPECT_FALSE(some_model("linear:rule=gated")->is_unbounded());
}

TEST(Generator, TakesExtremeTemperatures) {
  const auto model = some_model("linear");
  const Rows greedy = sample(*model, {{7}}, 50, 1, true);
  for (const double cold : {1e-3, 1e-30, 1e-300})
    EXPECT_EQ(sample(*model, {{7}}, 50, 1, false, cold), greedy) << cold;
  for (const double hot : {1e30, 1e300}) {
    std::vector<int64_t> counts(7);
    const Rows sampled = sample(*model, {{7}}, 1400, 1, false, hot);
    for (const int32_t token : sampled[0]) ++counts[static_cast<size_t>(token)];
    for (const int64_t count : counts)
      EXPECT_NEAR(static_cast<double>(count), 200, 5 * 13.1) << hot;  // sqrt(1400 * 6/49)
  }
}

TEST(Generator, FrequenciesFollowTheModel) {
  const auto model = some_model("softmax");
  DecodeState state = model->start(1);
  const std::vector<double> logits =
      model->step(state, Tensor::from<int32_t>({7}, {1})).to_doubles();
  const double temperature = 1.5, samples = 20000;
  double total = 0;
  for (const double x : logits) total += std::exp(x / temperature);
  std::vector<double> counts(7);
  for (const auto& row :
       sample(*model, Rows(static_cast<size_t>(samples), {7}), 1, 1, false, temperature))
    ++counts[static_cast<size_t>(row[0])];
  for (size_t v = 0; v < 7; ++v) {
    const double p = std::exp(logits[v] / temperature) / total;
    EXPECT_NEAR(counts[v], samples * p, 5 * std::sqrt(samples * p * (1 - p)) + 1) << v;
  }
}

TEST(Generator, RefusesInvalidPrompts) {
  const auto model = some_model("linear");
  expect_error(ErrorKind::usage, {"at least one token"}, [&] { sample(*model, {}, 1, 1); });
  expect_error(ErrorKind::usage, {"at least one token"}, [&] { sample(*model, {{}}, 1, 1); });
  expect_error(ErrorKind::usage, {"1", "2"}, [&] { sample(*model, {{7}, {7, 1}}, 1, 1); });
  expect_error(ErrorKind::usage, {"9"}, [&] { sample(*model, {{9}}, 1, 1); });
}

}  // namespace
}  // namespace linea

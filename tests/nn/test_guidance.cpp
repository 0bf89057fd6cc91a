// Classifier-free guidance: the scores of two readings, the random numbers of one.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "nn/generation.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

using Rows = std::vector<std::vector<int32_t>>;
constexpr int32_t kNoClass = 9;  // after 7 tokens and two classes
const Rows kGuidedPrompts = {{7}, {8}, {7}, {8}, {8}};

// Scores far enough apart that each token matters.
std::unique_ptr<Transformer> guided_model(const std::string& head = "categorical",
                                          const std::string& attention = "linear") {
  ModelConfig config = small_transformer(2);
  config.attentions[0].name = attention;
  config.length = 12;
  config.vocab_size = 7;
  config.input_vocab_size = 10;
  config.classes = 2;
  config.no_class = kNoClass;
  config.class_embedding = "every";
  config.output_head = head;
  auto model = std::make_unique<Transformer>(config);
  uint32_t stream_id = 300;
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.var.shape().rank() < 2) continue;
    Var var = parameter.var;
    var.set_value(random_tensor(var.shape(), stream_id++, 0.4, 0.0, DType::f32));
  }
  return model;
}

// The formula at each position, by two separate states and the parallel form of sampling.
Rows guided_reference(const Transformer& model, const Rows& prompts, int64_t count,
                      const SamplingOptions& options) {
  const int64_t R = static_cast<int64_t>(prompts.size());
  Rows result(prompts.size());
  DecodeState with = model.start(R), without = model.start(R);
  const ops::Sampled sampled{Tensor::zeros({R}, DType::i32), {}, Tensor::zeros({R}, DType::i32)};
  for (int64_t n = 0; n < static_cast<int64_t>(prompts[0].size()) + count - 1; ++n) {
    std::vector<int32_t> tokens;
    for (size_t row = 0; row < prompts.size(); ++row) {
      const size_t begin = prompts[row].size(), place = static_cast<size_t>(n);
      tokens.push_back(place < begin ? prompts[row][place] : result[row][place - begin]);
    }
    const std::vector<int32_t> first(static_cast<size_t>(R), kNoClass);
    const OutputHead& head = model.output_head();
    const Tensor c = head.scores(model.step(with, Tensor::from(tokens, {R})));
    const Tensor u = head.scores(model.step(without, Tensor::from(n == 0 ? first : tokens, {R})));
    if (n + 1 < static_cast<int64_t>(prompts[0].size())) continue;
    std::vector<float> l = u.to_vector<float>();
    const std::vector<float> of_class = c.to_vector<float>();
    for (size_t i = 0; i < l.size(); ++i)
      l[i] += static_cast<float>(options.guidance) * (of_class[i] - l[i]);
    ops::sample(OutputKind::logits, Tensor::from(l, u.shape()), u.size(1), options.params(),
                {options.seed, Purpose::sample, 0, 0}, sampled);
    const std::vector<int32_t> next = sampled.tokens.to_vector<int32_t>();
    for (size_t row = 0; row < prompts.size(); ++row) result[row].push_back(next[row]);
  }
  return result;
}

TEST(Guidance, FollowsItsFormula) {
  for (const std::string head : {"categorical", "logistics"})
    for (const std::string attention : {"linear", "softmax"})
      for (const double guidance : {0.0, 0.5, 3.0}) {
        const auto model = guided_model(head, attention);
        const Rows given = {{7, 3, 1}, {8, 3, 1}, {7, 0, 6}};
        for (const Rows& prompts : {kGuidedPrompts, given})
          for (SamplingOptions options : {SamplingOptions{}, SamplingOptions{.greedy = true},
                                          SamplingOptions{.temperature = 0.7, .top_p = 0.8}}) {
            options.guidance = guidance;
            EXPECT_EQ(sample_tokens(*model, options, prompts, 9),
                      guided_reference(*model, prompts, 9, options))
                << head << attention << guidance << options.temperature;
          }
      }
}

TEST(Guidance, OfNothingIsSamplingWithoutClasses) {
  const auto model = guided_model();
  const SamplingOptions none{.guidance = 0};
  EXPECT_EQ(sample_tokens(*model, none, kGuidedPrompts, 12),
            sample_tokens(*model, {}, Rows(5, {kNoClass}), 12));
}

TEST(Guidance, MovesSamplesTowardsTheirClass) {
  const auto model = guided_model();
  const Rows plain = sample_tokens(*model, {}, kGuidedPrompts, 12);
  for (const double guidance : {0.0, 0.5, 2.0})
    EXPECT_NE(sample_tokens(*model, {.guidance = guidance}, kGuidedPrompts, 12), plain) << guidance;
}

TEST(Guidance, ARowSamplesTheSameInAnyBatch) {
  const auto model = guided_model();
  SamplingOptions options{.seed = 3, .guidance = 2};
  const Rows together = sample_tokens(*model, options, kGuidedPrompts, 12);
  for (const int64_t first : {2, 4}) {
    options.first_row = first;
    EXPECT_EQ(sample_tokens(*model, options,
                            Rows(kGuidedPrompts.begin() + first, kGuidedPrompts.end()), 12),
              Rows(together.begin() + first, together.end()));
  }
}

// Past the length both readings are of the same tokens, so that guidance changes nothing.
TEST(Guidance, ContinuesPastTheLength) {
  const auto model = guided_model();
  const size_t length = 12;
  const Rows sampled = sample_tokens(*model, {.greedy = true, .guidance = 2}, {{7}}, 40);
  std::vector<int32_t> text = {7};
  text.insert(text.end(), sampled[0].begin(), sampled[0].end());
  size_t begin = 0;
  for (size_t place = 1; place < text.size(); ++place) {
    if (place - begin > length) begin = place - length / 2;
    if (begin == 0) continue;
    const std::vector<int32_t> window(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                      text.begin() + static_cast<std::ptrdiff_t>(place));
    EXPECT_EQ(text[place], sample_tokens(*model, {.greedy = true}, {window}, 1)[0][0]) << place;
  }
}

TEST(Guidance, NeedsClassDropout) {
  const auto model = guided_model();
  for (const double guidance : {-1.0, std::nan(""), HUGE_VAL})
    expect_error(ErrorKind::usage, {"`guidance` is", "at least 0"},
                 [&] { sample_tokens(*model, {.guidance = guidance}, kGuidedPrompts, 1); });
  const Transformer plain(small_model());
  expect_error(ErrorKind::usage, {"`guidance` 2", "`class_dropout`"},
               [&] { sample_tokens(plain, {.guidance = 2}, kGuidedPrompts, 1); });
}

}  // namespace
}  // namespace linea

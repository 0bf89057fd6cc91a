// Sampling by the recurrent form: how many launches a position is, and that it is recorded.
#include "nn/generation.h"
#include "nn/transformer.h"
#include "tensor/backend.h"
#include "tests/cuda/parity.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"
#include "train/samples.h"

namespace linea::cuda_tests {
namespace {

ModelConfig small(const std::string& attention, const std::string& rule = "sum") {
  ModelConfig config;
  config.attentions = {
      {attention, declared_only(attention, {{"rule", rule}, {"features", 8}, {"codes", 4}})}};
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 32;
  config.length = 32;
  config.vocab_size = config.input_vocab_size = 9;
  return config;
}

class CudaSampling : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  }
  On device_{kCuda};
};

// Launches of a position, from tokens to those that follow them.
size_t launches(ModelConfig config, int64_t layers) {
  config.layers = layers;
  const Transformer model(config);
  DecodeState state = model.start(2);
  const Tensor tokens = token_tensor({3, 4}, {2}, config.input_vocab_size);
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  for (int i = 0; i < 2; ++i) {
    model.count_position(state);
    EXPECT_TRUE(recorder->run(0, [&] {
      model.output_head().sample(model.decode(state, tokens), {}, {},
                                 {tokens, state.device_position});
    }));
  }
  return recorder->launches(0);
}

// A launch costs some microseconds, as much as what it does for a small batch: there may be fewer
// of them, not more.
TEST_F(CudaSampling, APositionIsFewLaunches) {
  struct Most {
    ModelConfig config;
    DType stored;
    size_t layer, outside;
  };
  const Most cases[] = {{small("linear"), DType::f32, 8, 4},
                        {small("linear"), DType::bf16, 7, 4},
                        {small("linear", "gated"), DType::f32, 13, 4},
                        {small("linear", "delta"), DType::f32, 16, 4},
                        {small("performer"), DType::f32, 12, 4},
                        {small("soft-vq"), DType::f32, 16, 4},
                        {small("vq"), DType::f32, 12, 4}};
  for (Most max : cases) {
    max.config.stored = max.stored;
    max.config.output_head = max.stored == DType::bf16 ? "logistics" : "categorical";
    const size_t one = launches(max.config, 1), layer = launches(max.config, 2) - one;
    const AttentionOptions& of = max.config.attentions[0];
    const std::string name = label_of(of) + " " + name_of(max.stored);
    // How many launches a product is, the emulated cuBLAS knows: one.
    const size_t slack = real_gpu ? 4 : 0;
    EXPECT_LE(layer, max.layer + slack) << name << ", of a layer";
    EXPECT_LE(one - layer, max.outside + slack) << name << ", outside of layers";
    EXPECT_GT(layer, 3u) << name;
  }
}

// Also past the position at which pending keys of a state are added to it.
TEST_F(CudaSampling, Bf16StepsMatchTheParallelForm) {
  ModelConfig config = small("linear");
  config.stored = DType::bf16;
  const Transformer model(config);
  const int64_t B = 2, N = 2 * kMaxPending + 3, V = config.vocab_size;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < B * N; ++i) tokens.push_back(static_cast<int32_t>(i * i % V));
  const NoGrad no_grad;
  const std::vector<double> all =
      model.forward(token_tensor(tokens, {B, N}, V), false).value().to_doubles();
  DecodeState state = model.start(B);
  for (int64_t n = 0; n < N; ++n) {
    const std::vector<int32_t> now = {tokens[static_cast<size_t>(n)],
                                      tokens[static_cast<size_t>(N + n)]};
    std::vector<double> expected;
    for (int64_t b = 0; b < B; ++b)
      expected.insert(expected.end(), all.begin() + (b * N + n) * V,
                      all.begin() + (b * N + n + 1) * V);
    EXPECT_LE(distance(numbers(model.step(state, token_tensor(now, {B}, V))), expected), 0.03)
        << "position " << n;
  }
}

class Counted final : public sabotage::Saboteur {
 public:
  static inline int steps = 0;
  explicit Counted(AttentionOptions options) : Saboteur((options.name = "linear", options)) {}
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    ++steps;
    return right_->step(state, in);
  }
};

// The attention is asked at a position that is done plainly and at one that is recorded; from then
// on the device does without. Likewise of positions that are only read.
TEST_F(CudaSampling, IsCapturedAfterTheFirstPositions) {
  register_attention(
      {"counted", "linear, with its steps counted", "", {}, [](const AttentionOptions& options) {
         return std::make_unique<Counted>(options);
       }});
  const auto sample = [](const std::vector<int32_t>& first) {
    Counted::steps = 0;
    const Transformer model(small("counted"));
    SamplingOptions sampling;
    sampling.greedy = true;
    std::vector<std::vector<int32_t>> prompts;
    for (const int32_t token : {1, 2, 5}) {
      prompts.push_back(first);
      prompts.back().push_back(token);
    }
    return sample_tokens(model, sampling, prompts, 12);
  };
  for (const std::vector<int32_t>& first :
       {std::vector<int32_t>{}, {3}, {3, 1, 4, 1, 5, 8, 2, 6}}) {
    const auto got = sample(first);
    EXPECT_EQ(Counted::steps, 2 * (2 + static_cast<int>(std::min<size_t>(first.size(), 2))));
    use_device(Device{});
    EXPECT_EQ(sample(first), got);
    EXPECT_EQ(Counted::steps, 2 * (12 + static_cast<int>(first.size())));
    use_device(kCuda);
  }
}

// The CPU's tokens, of many rows.
TEST_F(CudaSampling, ManyRowsSampleAsTheCpu) {
  const Transformer model(small("linear"));
  context().sizes.token_buffer = 4;  // positions, so that it is gone through several times
  const std::vector<std::vector<int32_t>> prompts(3 * 128 + 1, {1, 5, 2});
  std::string not_captured = "?";
  const auto got = sample_tokens(model, {}, prompts, 12, {}, &not_captured);
  EXPECT_EQ(not_captured, "");
  use_device(Device{});
  const Transformer same(small("linear"));
  const auto expected = sample_tokens(same, {}, prompts, 12);
  use_device(kCuda);
  size_t different = 0;
  for (size_t row = 0; row < got.size(); ++row) different += got[row] != expected[row] ? 1 : 0;
  EXPECT_LE(different, 4u);  // a sum in another order may turn a draw
}

// In bf16, recorded, past positions at which states are written: the tokens of
// one position after the other.
TEST_F(CudaSampling, CapturedBf16SamplingMatchesEager) {
  ModelConfig config = small("linear");
  config.stored = DType::bf16;
  config.output_head = "logistics";
  const Transformer model(config);
  const int64_t rows = 2 * 128 + 1, positions = kMaxPending + 2;
  std::string not_captured = "?";
  const std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(rows), {1});
  const auto got = sample_tokens(model, {}, prompts, positions, {}, &not_captured);
  EXPECT_EQ(not_captured, "");
  DecodeState state = model.start(rows);
  const std::vector<int32_t> none(static_cast<size_t>(rows), 0),
      first(static_cast<size_t>(rows), 1);
  const ops::Sampled sampled{Tensor::from(first, {rows}), {}, Tensor::from(none, {rows}), {}};
  for (int64_t n = 0; n < positions; ++n) {
    model.output_head().sample(model.step(state, sampled.tokens), {},
                               {SamplingOptions{}.seed, Purpose::sample, 0, 0}, sampled);
    const std::vector<int32_t> expected = sampled.tokens.to_vector<int32_t>();
    size_t different = 0;
    for (size_t row = 0; row < got.size(); ++row)
      different += got[row][static_cast<size_t>(n)] != expected[row] ? 1 : 0;
    EXPECT_EQ(different, 0u) << "position " << n;
  }
}

TEST_F(CudaSampling, FillsTheMemory) {
  ModelConfig config = small("linear");
  EXPECT_EQ(sampling_batch(Transformer(config)), 4096);
  config.dim = 256;  // with what waits 145 KiB a layer; half of the emulated device's 8 GiB hold
                     // 724 rows of 40
  config.layers = 40;
  const int64_t rows = sampling_batch(Transformer(config));
  EXPECT_EQ(rows, real_gpu ? rows : 512);
  config = small("softmax");
  EXPECT_EQ(sampling_batch(Transformer(config)), 256);
  use_device(Device{});
  EXPECT_EQ(sampling_batch(Transformer(small("linear"))), 256);
  use_device(kCuda);
}

// Rows that are read with their class and without, by all embeddings that sampling remembers
// something for: the CPU's tokens.
TEST_F(CudaSampling, GuidedRowsAreThoseOfTheCpu) {
  ModelConfig config = small("linear");
  config.classes = 2;
  config.no_class = 11;
  config.input_vocab_size = 12;
  config.class_embedding = "every";
  context().sizes.token_buffer = 4;
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t row = 0; row < 2 * 128 + 1; ++row) prompts.push_back({9 + row % 2, 5});
  const SamplingOptions options{.guidance = 2.5};
  const auto sample = [&](std::string* not_captured) {
    const Transformer model(config);
    for (const Parameter& parameter : model.parameters())
      if (parameter.name == "class_embedding.weight")
        parameter.var.value().write(
            input<float>(parameter.var.shape(), 4).to_vector<float>().data());
    return sample_tokens(model, options, prompts, 12, {}, not_captured);
  };
  std::string not_captured = "?";
  const auto got = sample(&not_captured);
  EXPECT_EQ(not_captured, "");
  use_device(Device{});
  const auto expected = sample(nullptr);
  use_device(kCuda);
  size_t different = 0;
  for (size_t row = 0; row < got.size(); ++row) different += got[row] != expected[row] ? 1 : 0;
  EXPECT_LE(different, 3u);  // a sum in another order may turn a draw
}

// Several positions are sampled before the host reads them: each is reported once, in order.
TEST_F(CudaSampling, EachPositionIsReportedOnce) {
  const Transformer model(small("linear"));
  context().sizes.token_buffer = 16;
  for (const int64_t count : {int64_t{1}, int64_t{3}, 2 * context().sizes.token_buffer + 7,
                              int64_t{70}}) {  // past the length
    std::vector<std::vector<int32_t>> told;
    const auto sampled =
        sample_tokens(model, {}, {{1}, {2}}, count, [&](const std::vector<int32_t>& tokens) {
          told.push_back(tokens);
          return true;
        });
    ASSERT_EQ(told.size(), static_cast<size_t>(count));
    for (size_t row = 0; row < 2; ++row) {
      ASSERT_EQ(sampled[row].size(), static_cast<size_t>(count));
      for (size_t n = 0; n < told.size(); ++n) EXPECT_EQ(told[n][row], sampled[row][n]);
    }
  }
}

}  // namespace
}  // namespace linea::cuda_tests

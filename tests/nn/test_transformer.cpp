// The Transformer as a whole: its two forms agree, it never looks ahead, and its parameters are
// what they are said to be.
#include "nn/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/feature_map.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

// Weights of trained size: those of initialization are so small that attention hardly mixes.
void stir(const Transformer& model, double stddev = 0.4) {
  uint32_t stream_id = 100;
  for (const Parameter& parameter : model.parameters()) {
    const Tensor noise = random_tensor(parameter.var.shape(), stream_id++, stddev, 0.0, DType::f32);
    std::vector<float> values = parameter.var.value().to_vector<float>();
    const std::vector<float> added = noise.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] += added[i];
    Var var = parameter.var;
    var.set_value(Tensor::from(values, parameter.var.shape()));
  }
}

// Every attention; the first variant of each in every kind of model, the others in two.
std::vector<ModelConfig> every_kind() {
  std::vector<ModelConfig> result;
  for (const AttentionEntry& entry : causal_attentions())
    for (const AttentionOptions& variant : entry.variant_options())
      for (const std::string positions : {"learned", "sinusoidal"})
        for (const bool tie : {false, true})
          for (const bool bias : {true, false}) {
            const bool first = variant.settings == entry.variants.front();
            if (!first && (tie != (positions == "sinusoidal") || tie == bias)) continue;
            ModelConfig config = small_model();
            config.attentions = {variant};
            config.positions = positions;
            config.tie = tie;
            config.bias = bias;
            result.push_back(config);
            const bool reversible = make_smallest(variant)->traits().recomputable;
            if (!first || tie || !bias || !reversible) continue;
            config.reversible = true;
            result.push_back(config);
          }
  return result;
}

std::string describe(const ModelConfig& config) {
  return fmt::format("{} {} tie {} bias {} reversible {}", label_of(config.attentions[0]),
                     config.positions, config.tie, config.bias, config.reversible);
}

TEST(Transformer, StepsMatchTheParallelForm) {
  const int64_t B = 3, N = 20;
  const Tensor ids = some_ids(B, N);
  const std::vector<int32_t> tokens = ids.to_vector<int32_t>();
  for (const ModelConfig& config : every_kind()) {
    const Transformer model(config);
    // Sums of weights of both signs cancel where scores are large, and then show rounding.
    stir(model, make_smallest(config.attentions[0])->traits().signed_weights ? 0.2 : 0.4);
    const NoGrad no_grad;
    const std::vector<double> parallel = model.forward(ids, false).value().to_doubles();
    double largest = 0, error = 0;
    for (const double x : parallel) largest = std::max(largest, std::abs(x));
    DecodeState state = model.start(B);
    for (int64_t n = 0; n < N; ++n) {
      std::vector<int32_t> column;
      for (int64_t b = 0; b < B; ++b) column.push_back(tokens[static_cast<size_t>(b * N + n)]);
      const std::vector<double> step = model.step(state, Tensor::from(column, {B})).to_doubles();
      for (int64_t b = 0; b < B; ++b)
        for (int64_t v = 0; v < kTokens; ++v)
          error =
              std::max(error, std::abs(step[static_cast<size_t>(b * kTokens + v)] -
                                       parallel[static_cast<size_t>((b * N + n) * kTokens + v)]));
    }
    EXPECT_GT(largest, 0.1) << describe(config);
    EXPECT_LE(error, 1e-4 * largest) << describe(config);
    EXPECT_EQ(state.position, N);
    expect_error(ErrorKind::usage, {"20", "length"}, [&] {
      model.step(state, Tensor::from<int32_t>({0, 0, 0}, {B}));
    });
  }
}

// What a model draws by: scores [B,V] of each position, one position after another.
std::vector<double> scores_in_turn(const Transformer& model, int64_t B, int64_t N) {
  std::vector<double> scores;
  DecodeState state = model.start(B);
  for (int64_t n = 0; n < N; ++n) {
    const Tensor tokens = some_ids(1, B, static_cast<int32_t>(n)).reshape({B});
    for (const double x : model.step(state, tokens).to_doubles()) scores.push_back(x);
  }
  return scores;
}

// As if every matrix had been rounded, and nothing else: of a tied head the table that is read is
// not. Where the processor multiplies pairs, products of whole blocks of terms round x, too.
TEST(Transformer, SamplesWithBf16Weights) {
  for (const std::string attention : {"linear", "softmax"})
    for (const auto& [tie, dim] : {std::pair{false, 16}, {true, 16}, {false, 32}}) {
      ModelConfig config = small_model();
      config.attentions[0].name = attention;
      config.tie = tie;
      config.dim = dim;
      const Transformer plain(config), rounded(config);
      config.panels = DType::bf16;
      const Transformer halves(config);
      for (const Transformer* model : {&plain, &rounded, &halves}) stir(*model);
      for (const Parameter& parameter : rounded.parameters()) {
        const bool table = parameter.name == "position_embedding.weight" ||
                           parameter.name == "token_embedding.weight";
        if (parameter.var.shape().rank() != 2 || table) continue;
        std::vector<float> values = parameter.var.value().to_vector<float>();
        for (float& x : values) x = BFloat16(x);
        Var var = parameter.var;
        var.set_value(Tensor::from(values, parameter.var.shape()));
      }
      const auto apart = [&](const Transformer& other) {
        const std::vector<double> x = scores_in_turn(halves, 3, 12),
                                  y = scores_in_turn(other, 3, 12);
        double largest = 0, error = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          largest = std::max(largest, std::abs(y[i]));
          error = std::max(error, std::abs(x[i] - y[i]));
        }
        return error / largest;
      };
      if (tie) {  // the head's panels are of bf16 too, which the table in `rounded` is not
        EXPECT_GT(apart(rounded), 1e-4) << attention;
      } else {
        EXPECT_LE(apart(rounded), dim == 32 && rounds_chunks() ? 0.02 : 1e-5) << attention;
      }
      EXPECT_LE(apart(plain), 0.05) << attention;
      EXPECT_GT(apart(plain), 1e-4) << attention;
    }
}

TEST(Transformer, ScoresAreCausalToTheBit) {
  const int64_t N = 20;
  for (const ModelConfig& config : every_kind()) {
    const Transformer model(config);
    stir(model);
    const NoGrad no_grad;
    std::vector<int32_t> tokens = some_ids(1, N).to_vector<int32_t>();
    const std::vector<float> before =
        model.forward(Tensor::from(tokens, {1, N}), false).value().to_vector<float>();
    for (const int64_t changed : {1, 7, 19}) {
      std::vector<int32_t> other = tokens;
      for (int64_t n = changed; n < N; ++n)
        other[static_cast<size_t>(n)] =
            static_cast<int32_t>((other[static_cast<size_t>(n)] + 1 + n % 3) % kTokens);
      const std::vector<float> after =
          model.forward(Tensor::from(other, {1, N}), false).value().to_vector<float>();
      const size_t past = static_cast<size_t>(changed * kTokens);
      EXPECT_EQ(std::memcmp(before.data(), after.data(), past * sizeof(float)), 0)
          << describe(config);
      EXPECT_NE(std::memcmp(before.data() + past, after.data() + past, kTokens * sizeof(float)), 0)
          << describe(config);
    }
  }
}

TEST(Transformer, DropoutDependsOnTrainingAndStep) {
  ModelConfig config = small_model();
  config.dropout = 0.3f;
  const Transformer model(config);
  const Transformer plain(small_model());
  const Tensor ids = some_ids(2, 20);
  const NoGrad no_grad;
  StepParams& step = *context().step;
  const auto logits = [&](const Transformer& any, bool training, uint64_t at) {
    step.step = at;
    return any.forward(ids, training).value().to_vector<float>();
  };
  step.seed = 5;
  EXPECT_EQ(logits(model, false, 1), logits(plain, false, 1));
  EXPECT_EQ(logits(model, false, 1), logits(model, false, 2));
  EXPECT_NE(logits(model, true, 1), logits(model, false, 1));
  EXPECT_EQ(logits(model, true, 1), logits(model, true, 1));
  EXPECT_NE(logits(model, true, 1), logits(model, true, 2));
  EXPECT_EQ(logits(plain, true, 1), logits(plain, false, 1));
  const std::vector<float> first = logits(model, true, 1);
  step.seed = 6;
  EXPECT_NE(first, logits(model, true, 1));
}

TEST(Transformer, EveryParameterHasAGradient) {
  for (const ModelConfig& config : every_kind()) {
    const Transformer model(config);
    stir(model);
    const int64_t B = 2, N = 20;
    backward(cross_entropy(model.forward(some_ids(B, N), true), some_ids(B, N, 5)));
    for (const Parameter& parameter : model.parameters()) {
      ASSERT_TRUE(parameter.var.grad().defined()) << parameter.name << " in " << describe(config);
      ASSERT_EQ(parameter.var.grad().shape(), parameter.var.shape());
      double largest = 0;
      for (const double x : parameter.var.grad().to_doubles()) {
        ASSERT_TRUE(std::isfinite(x)) << parameter.name << " in " << describe(config);
        largest = std::max(largest, std::abs(x));
      }
      EXPECT_GT(largest, 0) << parameter.name << " in " << describe(config);
    }
  }
}

TEST(Transformer, TheLossFollowsItsGradient) {
  for (const ModelConfig& config : every_kind()) {
    if (config.attentions[0].name == "vq") continue;  // straight through: not the gradient of k
    const Transformer model(config);
    stir(model);
    const Tensor ids = some_ids(2, 20), targets = some_ids(2, 20, 5);
    const auto loss = [&] { return cross_entropy(model.forward(ids, false), targets); };
    const Var before = loss();
    backward(before);
    // A step of size h along -g changes the loss by -h |g|^2, up to second order.
    double squares = 0;
    for (const Parameter& parameter : model.parameters())
      for (const double g : parameter.var.grad().to_doubles()) squares += g * g;
    const double h = 2e-4 / squares;  // small: relu and dpfp have kinks
    const auto move_by = [&](double distance) {
      for (const Parameter& parameter : model.parameters()) {
        std::vector<float> values = parameter.var.value().to_vector<float>();
        const std::vector<double> g = parameter.var.grad().to_doubles();
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>(values[i] - distance * g[i]);
        Var var = parameter.var;
        var.set_value(Tensor::from(values, parameter.var.shape()));
      }
    };
    const NoGrad no_grad;
    move_by(h);
    const double after = loss().value().item();
    move_by(-2 * h);
    const double ahead = loss().value().item();
    EXPECT_NEAR((ahead - after) / 2, 2e-4, 4e-5) << describe(config);
  }
}

// The message names the layer whose numbers are not finite, of two with the same ops, recomputed or
// not.
TEST(Transformer, NonfiniteValuesNameTheirLayer) {
  for (const bool recompute : {false, true}) {
    ModelConfig config = small_model();
    config.recompute = recompute;
    const auto first_bad = [&](const std::string& name) -> std::string {
      const Transformer model(config);
      for (const Parameter& parameter : model.parameters())
        if (const Tensor value = parameter.var.value(); parameter.name == name)
          write_values(std::vector<double>(static_cast<size_t>(value.numel()), NAN), value);
      const DetectNonfinite detect;
      try {
        model.forward(some_ids(1, 4), true);
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_NE(first_bad("blocks.1.down.bias").find("op add_feed_forward made in blocks.1 "),
              std::string::npos);
    EXPECT_NE(first_bad("blocks.0.out.bias").find("op add_linear made in blocks.0 "),
              std::string::npos);
    EXPECT_NE(first_bad("output_head.bias").find("op norm_linear made in output_head "),
              std::string::npos);
    EXPECT_EQ(first_bad(""), "");
    config.recompute = false;
    config.reversible = true;
    EXPECT_NE(first_bad("blocks.1.down.bias").find("op add_feed_forward made in blocks.1 "),
              std::string::npos);
  }
}

}  // namespace
}  // namespace linea

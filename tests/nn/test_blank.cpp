#include "nn/blank.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "nn/generation.h"
#include "nn/transformer.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

constexpr int64_t kSide = 8, kLevels = 6;

ModelConfig image_model() {
  ModelConfig config;
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 24;
  config.length = kSide * kSide;
  config.vocab_size = kLevels;
  config.input_vocab_size = kLevels + 3;
  config.classes = 2;
  config.no_class = kLevels + 2;
  config.class_embedding = "every";
  config.positions = "learned+grid";
  config.layer_convolution = "2d";
  config.image_width = kSide;
  config.image_channels = 1;
  config.skip_blank = true;
  return config;
}

// Other weights than at first, which hide parts of a model: convolutions that are not the identity.
void shake(const Transformer& model) {
  int64_t i = 0;
  for (const Parameter& parameter : model.parameters()) {
    std::vector<double> values = parameter.var.value().to_doubles();
    for (double& value : values) value += 0.2 * std::sin(static_cast<double>(++i));
    write_values(values, parameter.var.value());
  }
}

// Inputs of images with a few strokes; image 2 is empty, image 3 full.
std::vector<int32_t> some_images(int64_t B) {
  std::vector<int32_t> ids;
  for (int64_t b = 0; b < B; ++b) {
    ids.push_back(static_cast<int32_t>(kLevels + b % 2));
    for (int64_t n = 0; n + 1 < kSide * kSide; ++n) {
      const bool ink = b % 4 == 3 || (b % 4 != 2 && (n * n + 5 * b) % 37 < 2);
      ids.push_back(ink ? static_cast<int32_t>(1 + n % (kLevels - 1)) : 0);
    }
  }
  return ids;
}

Tensor tensor_of(const std::vector<int32_t>& ids) {
  return Tensor::from(ids, {static_cast<int64_t>(ids.size()) / (kSide * kSide), kSide * kSide});
}

// Position n is computed where a pixel of its neighborhood is ink, by rows and columns.
bool has_ink_around(const int32_t* ids, int64_t n) {
  if (n == 0) return true;
  const auto ink = [&](int64_t position) { return position >= 0 && ids[position + 1] > 0; };
  bool any = ink(n - 1) || ink(n - 2);
  for (int64_t up : {1, 2})
    for (int64_t right = -2; right <= 2; ++right) any = any || ink(n - up * kSide + right);
  return any;
}

TEST(Blank, PositionsWithoutInkAroundAreBlank) {
  const std::vector<int32_t> ids = some_images(4);
  const PackedPositions positions(tensor_of(ids), image_model());
  const int64_t N = kSide * kSide, M = positions.computed.size(1);
  const std::vector<int32_t> order = positions.order.to_vector<int32_t>(),
                             computed = positions.computed.to_vector<int32_t>(),
                             blank = positions.blank.to_vector<int32_t>(),
                             before = positions.before.to_vector<int32_t>();
  int64_t blanks = 0;
  for (int64_t i = 0; i < 4 * N; ++i) {
    const int32_t row = order[static_cast<size_t>(i)];
    const bool is_computed = has_ink_around(ids.data() + i / N * N, i % N);
    ASSERT_EQ(row < 4 * M, is_computed) << i;
    const auto k = static_cast<size_t>(is_computed ? row : row - 4 * M);
    EXPECT_EQ((is_computed ? computed : blank)[k], i);
    if (is_computed) continue;
    ++blanks;
    const int32_t last = computed[static_cast<size_t>(before[k])];
    EXPECT_LT(last, i);
    for (int64_t j = last + 1; j < i; ++j) EXPECT_GE(order[static_cast<size_t>(j)], 4 * M) << j;
  }
  EXPECT_GT(blanks, N);
  EXPECT_EQ(positions.lengths.to_vector<int32_t>()[2], 1);
}

// Sampling given everything is the parallel form: each token is the likeliest of its outputs.
TEST(Blank, SampledImagesAreThoseOfTheParallelForm) {
  for (const char* attention : {"linear", "softmax", "gdn"})
    for (const bool reversible : {false, true}) {
      ModelConfig config = image_model();
      config.attentions = {{.name = attention}};
      config.reversible = reversible;
      const Transformer model(config);
      shake(model);
      SamplingOptions options;
      options.greedy = true;
      for (const size_t given : {size_t{1}, size_t{20}, size_t{50}}) {
        std::vector<std::vector<int32_t>> prompts;
        const std::vector<int32_t> ids = some_images(4);
        for (size_t b = 0; b < 4; ++b)
          prompts.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(b * 64),
                               ids.begin() + static_cast<std::ptrdiff_t>(b * 64 + given));
        const auto sampled =
            sample_tokens(model, options, prompts, 65 - static_cast<int64_t>(given));
        for (size_t b = 0; b < 4; ++b) {
          std::vector<int32_t> all = prompts[b];
          all.insert(all.end(), sampled[b].begin(), sampled[b].end());
          ASSERT_EQ(all.size(), 65u);
          const Tensor scores =
              model.forward(tensor_of({all.begin(), all.end() - 1}), false).value();
          const std::vector<double> values = scores.to_doubles();
          for (size_t n = given - 1; n < 64; ++n) {
            const double* row = values.data() + n * kLevels;
            EXPECT_GE(row[all[n + 1]], *std::max_element(row, row + kLevels) - 1e-4)
                << attention << " " << b << " " << n;
          }
        }
      }
    }
}

TEST(Blank, SampledTokensDependOnTheirRowAlone) {
  const Transformer model(image_model());
  shake(model);
  SamplingOptions options;
  options.guidance = 1.5;
  const std::vector<std::vector<int32_t>> prompts = {{kLevels}, {kLevels + 1}, {kLevels}};
  int64_t positions = 0;
  const auto all = sample_tokens(model, options, prompts, 64, [&](const auto& tokens) {
    EXPECT_EQ(tokens.size(), 3u);
    return ++positions < 50;
  });
  EXPECT_EQ(positions, 50);
  for (int64_t row = 0; row < 3; ++row) {
    options.first_row = row;
    const auto one = sample_tokens(model, options, {prompts[static_cast<size_t>(row)]}, 50);
    EXPECT_EQ(one[0], all[static_cast<size_t>(row)]) << row;
  }
}

TEST(Blank, OutputsReadNoLaterToken) {
  const Transformer model(image_model());
  shake(model);
  std::vector<int32_t> ids = some_images(1);
  const Tensor before = model.forward(tensor_of(ids), false).value();
  constexpr int64_t kChanged = 30;
  ids[kChanged] = ids[kChanged] == 0 ? 3 : 0;
  const Tensor after = model.forward(tensor_of(ids), false).value();
  for (int64_t n = 0; n < kChanged; ++n)
    EXPECT_LE(relative_error(after.select(0).select(n), before.select(0).select(n)), 1e-6) << n;
  EXPECT_GT(relative_error(after.select(0).select(kChanged), before.select(0).select(kChanged)),
            1e-3);
}

// The gradients of all parameters, by differences of the loss in float.
TEST(Blank, GradientsAreThoseOfTheLoss) {
  const Transformer model(image_model());
  shake(model);
  const std::vector<int32_t> ids = some_images(3);
  std::vector<int32_t> targets(ids.begin() + 1, ids.end());
  targets.push_back(1);
  for (size_t i = 63; i < targets.size(); i += 64) targets[i] = 1;
  const auto loss = [&] {
    return model.output_head().loss(model.forward(tensor_of(ids), true), tensor_of(targets));
  };
  backward(loss());
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<double> values = parameter.var.value().to_doubles(),
                              gradient = parameter.var.grad().to_doubles();
    double norm = 0, change = 0;
    for (const double g : gradient) norm += g * g;
    norm = std::sqrt(norm);
    ASSERT_GT(norm, 0) << parameter.name;
    for (const double side : {1.0, -1.0}) {
      std::vector<double> moved = values;
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += side * 1e-2 * gradient[i] / norm;
      write_values(moved, parameter.var.value());
      const NoGrad no_grad;
      change += side * loss().value().to_doubles()[0];
    }
    write_values(values, parameter.var.value());
    EXPECT_NEAR(change / 2e-2, norm, 0.05 * norm + 1e-3) << parameter.name;
  }
}

TEST(Blank, ImagesWithoutBlankPositionsTrainTheirParametersToo) {
  const Transformer model(image_model());
  const std::vector<int32_t> ids(64, 2);
  backward(model.output_head().loss(model.forward(tensor_of(ids), true), tensor_of(ids)));
  for (const Parameter& parameter : model.parameters())
    EXPECT_TRUE(parameter.var.grad().defined()) << parameter.name;
}

TEST(Blank, RefusesWhatItCannotDo) {
  const auto refuses = [](auto change, const char* text) {
    ModelConfig config = image_model();
    change(config);
    expect_error(ErrorKind::usage, {text}, [&] { const Transformer model(config); });
  };
  refuses([](ModelConfig& c) { c.dropout = 0.1; }, "dropout");
  refuses([](ModelConfig& c) { c.positions = "rotary"; }, "rotary");
  refuses([](ModelConfig& c) { c.causal = false; }, "skip_blank");
  refuses(
      [](ModelConfig& c) {
        c.image_width = 0;
        c.layer_convolution = "none";
        c.positions = "learned";
      },
      "needs images");
}

}  // namespace
}  // namespace linea

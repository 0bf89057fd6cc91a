// The parameters of a Transformer: their names, shapes and initial values, and the settings
// refused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "nn/transformer.h"
#include "tests/expect_error.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

TEST(Transformer, NamesItsParameters) {
  const auto names_of = [](const ModelConfig& config) {
    std::map<std::string, std::string> shapes;
    const Transformer model(config);
    for (const Parameter& parameter : model.parameters())
      shapes[parameter.name] = parameter.var.shape().str();
    return shapes;
  };
  std::map<std::string, std::string> expected = {{"token_embedding.weight", "[12,16]"},
                                                 {"position_embedding.weight", "[20,16]"},
                                                 {"norm.weight", "[16]"},
                                                 {"norm.bias", "[16]"},
                                                 {"output_head.weight", "[11,16]"},
                                                 {"output_head.bias", "[11]"}};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const char* norm : {"norm1", "norm2"}) {
      expected[block + norm + ".weight"] = "[16]";
      expected[block + norm + ".bias"] = "[16]";
    }
    const std::pair<std::string, std::pair<std::string, std::string>> linears[] = {
        {"qkv", {"[48,16]", "[48]"}},
        {"out", {"[16,16]", "[16]"}},
        {"up", {"[24,16]", "[24]"}},
        {"down", {"[16,24]", "[16]"}}};
    for (const auto& [name, shape] : linears) {
      expected[block + name + ".weight"] = shape.first;
      expected[block + name + ".bias"] = shape.second;
    }
  }
  EXPECT_EQ(names_of(small_model()), expected);

  ModelConfig bare = small_model();
  bare.bias = false;
  bare.tie = true;
  bare.positions = "sinusoidal";
  for (auto it = expected.begin(); it != expected.end();) {
    const bool gone = it->first == "position_embedding.weight" ||
                      it->first == "output_head.weight" ||
                      it->first.find(".bias") != std::string::npos;
    it = gone ? expected.erase(it) : std::next(it);
  }
  EXPECT_EQ(names_of(bare), expected);
  // 12*16 tokens, 2 blocks of 4*16*16 + 2*16*24 weights and 2 gains, the last weight
  EXPECT_EQ(count_elements(Transformer(bare).parameters()), 192 + 2 * (1024 + 768 + 32) + 16);
  EXPECT_EQ(Transformer(small_model()).matrix_weights(), 2 * (1024 + 768) + 16 * 11);
}

TEST(Transformer, RefusesInvalidSettings) {
  const auto refused = [](std::initializer_list<std::string> fragments,
                          const std::function<void(ModelConfig&)>& change) {
    ModelConfig config = small_model();
    change(config);
    expect_error(ErrorKind::usage, fragments, [&] { const Transformer model(config); });
  };
  refused({"`dim` 16", "`heads` 3"}, [](ModelConfig& c) { c.heads = 3; });
  refused({"`heads` is 0"}, [](ModelConfig& c) { c.heads = 0; });
  refused({"`layers` is 0"}, [](ModelConfig& c) { c.layers = 0; });
  refused({"`dim` is -16"}, [](ModelConfig& c) { c.dim = -16; });
  refused({"`ffn` is 0"}, [](ModelConfig& c) { c.ffn = 0; });
  refused({"`length` is 0"}, [](ModelConfig& c) { c.length = 0; });
  refused({"`dropout` is 1"}, [](ModelConfig& c) { c.dropout = 1; });
  refused({"`dropout` is -0.5"}, [](ModelConfig& c) { c.dropout = -0.5f; });
  refused({"`positions` is 'rotated'", "sinusoidal"},
          [](ModelConfig& c) { c.positions = "rotated"; });
  refused({"'linaer'", "linear", "softmax"},
          [](ModelConfig& c) { c.attentions[0].name = "linaer"; });
  refused({"'cosine'", "elu", "dpfp"},
          [](ModelConfig& c) { c.attentions[0].settings["feature"] = "cosine"; });
  refused({"`nu` is -1"}, [](ModelConfig& c) {
    c.attentions[0].settings = {{"feature", "dpfp"}, {"nu", -1}};
  });
  refused({"`nu`", "`feature` dpfp"}, [](ModelConfig& c) { c.attentions[0].settings["nu"] = 2; });
  refused({"nu is 16", "1..15", "8"}, [](ModelConfig& c) {
    c.attentions[0].settings = {{"feature", "dpfp"}, {"nu", 16}};
  });
  const Transformer model(small_model());
  expect_error(ErrorKind::usage, {"21", "20"}, [&] { model.forward(some_ids(1, 21), false); });
  expect_error(ErrorKind::usage, {"12", "12"}, [] { token_tensor({0, 12}, {2}, 12); });
  expect_error(ErrorKind::usage, {"-1"}, [] { token_tensor({-1}, {1}, 12); });
}

TEST(Transformer, StartsWithGaussianWeightsOfTheRightSize) {
  ModelConfig config = small_model();
  config.layers = 8;
  config.dim = 64;
  config.ffn = 256;
  config.input_vocab_size = config.vocab_size = 100;
  config.length = 100;
  const Transformer model(config);
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<double> values = parameter.var.value().to_doubles();
    if (parameter.var.shape().rank() < 2) {
      const double expected = parameter.name.find("weight") != std::string::npos ? 1.0 : 0.0;
      for (const double x : values) ASSERT_EQ(x, expected) << parameter.name;
      continue;
    }
    const bool residual = parameter.name.find("out.weight") != std::string::npos ||
                          parameter.name.find("down.weight") != std::string::npos;
    const double stddev = residual ? 0.02 / 4 : 0.02;  // sqrt(2 * 8 layers) = 4
    double sum = 0, squares = 0, fourth = 0;
    for (const double x : values) {
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
    const double count = static_cast<double>(values.size()), variance = squares / count;
    EXPECT_NEAR(sum / count, 0.0, 5 * stddev / std::sqrt(count)) << parameter.name;
    EXPECT_NEAR(std::sqrt(variance) / stddev, 1.0, 5 / std::sqrt(2 * count)) << parameter.name;
    EXPECT_NEAR(fourth / count / (variance * variance), 3.0, 5 * std::sqrt(24 / count))
        << parameter.name;
  }
}

TEST(Transformer, ParametersDependOnTheSeedAlone) {
  const Transformer one(small_model()), same(small_model());
  ModelConfig config = small_model();
  config.seed = 2;
  const Transformer other(config);
  std::set<float> firsts;
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    const std::vector<float> values = one.parameters()[i].var.value().to_vector<float>();
    EXPECT_EQ(values, same.parameters()[i].var.value().to_vector<float>());
    if (one.parameters()[i].var.shape().rank() < 2) continue;
    EXPECT_NE(values, other.parameters()[i].var.value().to_vector<float>())
        << one.parameters()[i].name;
    EXPECT_TRUE(firsts.insert(values[0]).second)
        << one.parameters()[i].name << " repeats another's numbers";
  }
}

}  // namespace
}  // namespace linea

// Embeddings of positions in images.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/attention_list.h"
#include "nn/verify/conformance_tools.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

// A model of images of 4 x 4 pixels.
ModelConfig grid_model(int64_t channels, const std::string& positions) {
  ModelConfig config = small_transformer(1);
  config.length = 16 * channels;
  config.image_width = 4;
  config.image_channels = channels;
  config.positions = positions;
  return config;
}

using ByName = std::map<std::string, std::vector<float>>;

ByName parameters_of(const Transformer& model) {
  ByName result;
  for (const Parameter& parameter : model.parameters())
    result[parameter.name] = parameter.var.value().to_vector<float>();
  return result;
}

TEST(Positions, AGridIsTheSumOfItsTables) {
  for (const int64_t channels : {1, 3}) {
    const Transformer grid(grid_model(channels, "learned+grid"));
    const Transformer plain(grid_model(channels, "learned"));
    ByName tables = parameters_of(grid);
    for (const auto& [name, values] : parameters_of(plain)) EXPECT_EQ(tables[name], values) << name;
    EXPECT_EQ(grid.parameters().size() - plain.parameters().size(), channels > 1 ? 3u : 2u);
    std::vector<float> sum = tables["position_embedding.weight"];
    for (size_t n = 0; n < sum.size() / 16; ++n) {
      const auto C = static_cast<size_t>(channels);
      for (size_t d = 0; d < 16; ++d) {
        float& value = sum[n * 16 + d];
        value += tables["row_embedding.weight"][n / C / 4 * 16 + d];
        value += tables["column_embedding.weight"][n / C % 4 * 16 + d];
        if (C > 1) value += tables["channel_embedding.weight"][n % C * 16 + d];
      }
    }
    for (const Parameter& parameter : plain.parameters())
      if (parameter.name == "position_embedding.weight") parameter.var.value().write(sum.data());
    for (const int64_t N : {5 * channels, 16 * channels}) {
      const Tensor ids = some_ids(2, N);
      EXPECT_EQ(grid.forward(ids, false).value().to_vector<float>(),
                plain.forward(ids, false).value().to_vector<float>());
    }
    DecodeState of_grid = grid.start(1), of_plain = plain.start(1);
    for (int32_t n = 0; n < 16 * channels; ++n) {
      const Tensor token = Tensor::from(std::vector<int32_t>{n % 11}, {1});
      EXPECT_EQ(grid.step(of_grid, token).to_vector<float>(),
                plain.step(of_plain, token).to_vector<float>());
    }
  }
  expect_error(ErrorKind::usage, {"`positions` learned+grid", "images"}, [] {
    ModelConfig config = grid_model(1, "learned+grid");
    config.image_width = 0;
    const Transformer model(config);
  });
}

TEST(Positions, NoneIsRefusedWhereNothingKnowsTheOrder) {
  ModelConfig config = small_transformer(1);
  config.positions = "none";
  EXPECT_EQ(Transformer(config).parameters()[1].name.find("position"), std::string::npos);
  config.causal = false;
  expect_error(ErrorKind::usage, {"`positions` none", "mask"}, [&] { Transformer{config}; });
  config.layer_convolution = "1d";
  Transformer{config};
}

TEST(Positions, AllTablesOfAGridAreTrained) {
  const Transformer model(grid_model(3, "learned+grid"));
  const Tensor ids = some_ids(2, 48);
  backward(cross_entropy(model.forward(ids, false), ids));
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.name.ends_with("_embedding.weight") || parameter.name[0] == 't') continue;
    for (const double g : parameter.var.grad().to_doubles()) EXPECT_NE(g, 0) << parameter.name;
  }
}

// y = x + P[n] + R[row] + K[column] + C[channel]: whole images, and five pixels and a part of one.
TEST(Positions, TheGradientOfAGrid) {
  for (const int64_t channels : {1, 3})
    for (const int64_t N : {16 * channels, 5 * channels + channels / 2}) {
      Parameters unused;
      ParameterInit init(unused, 1);
      PositionEmbedding positions(init, grid_model(channels, "learned+grid"));
      std::vector<Var> leaves = {Var(random_tensor({2, N, 16}, 1), true)};
      const auto in_double = [&](Var& table) {
        table = Var(random_tensor(table.shape(), static_cast<uint32_t>(leaves.size() + 1)), true);
        leaves.push_back(table);
      };
      in_double(positions.weight);
      for (PositionEmbedding::Axis& axis : positions.axes) in_double(axis.embedding.weight);
      ASSERT_EQ(leaves.size(), channels == 1 ? 4u : 5u);
      const GradcheckResult result =
          gradcheck_leaves([&] { return positions.forward(leaves[0], 0); }, leaves);
      EXPECT_LE(result.error, 1e-7) << channels << ", input " << result.worst_input;
    }
}

// The last row of each head of attention to positions in this order.
std::vector<double> last_rows(const Attention& attention, const conformance::Inputs& x,
                              const std::vector<size_t>& order) {
  const conformance::Inputs permuted = x.map([&](const Tensor& t) {
    const std::vector<double> from = t.to_doubles();
    const auto width = static_cast<size_t>(t.size(3)), N = order.size();
    std::vector<double> to(from.size());
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t n = i / width % N;
      to[i] = from[i - n * width + order[n] * width];
    }
    return Tensor::from(to, t.shape());
  });
  const Tensor y =
      attention.forward(conformance::inputs_for(attention, permuted, false), {true, {}}).value();
  return conformance::at_position(y, y.size(2) - 1).to_doubles();
}

// y_i of AttentionTraits::any_order, and of no other, stays when what is before i is permuted.
TEST(Positions, AttentionsTellWhetherTheyKnowTheOrder) {
  constexpr int64_t N = 96;
  const conformance::Inputs x = conformance::draw({1, 2, N, 4, 4}, DType::f64);
  std::vector<size_t> in_order(N), other(N);
  for (size_t i = 0; i < N; ++i) in_order[i] = i, other[i] = i < N - 1 ? i * 2 % (N - 1) : i;
  for (const AttentionEntry& entry : causal_attentions())
    for (AttentionOptions options : entry.variant_options()) {
      options.heads = 2, options.key_size = options.value_size = 4;
      options.length = N, options.dtype = DType::f64;
      const std::unique_ptr<Attention> attention = make_attention(options);
      const std::vector<double> before = last_rows(*attention, x, in_order),
                                after = last_rows(*attention, x, other);
      double most = 0;
      for (size_t i = 0; i < before.size(); ++i)
        most = std::max(most, std::abs(after[i] - before[i]));
      if (attention->traits().any_order)
        EXPECT_LT(most, 1e-12) << label_of(options);
      else
        EXPECT_GT(most, 1e-6) << label_of(options);
    }
}

TEST(Positions, AModelTellsWhetherItKnowsTheOrder) {
  ModelConfig config = small_transformer(2);
  const auto knows = [&](const std::string& attention) {
    config.attentions = parse_attentions(attention);
    return Transformer(config).knows_order();
  };
  EXPECT_TRUE(knows("linear"));
  config.positions = "none";
  EXPECT_FALSE(knows("linear"));
  EXPECT_FALSE(knows("softmax/performer"));
  EXPECT_TRUE(knows("linear/gdn"));
  EXPECT_TRUE(knows("linear:rule=gated"));
  config.layer_convolution = "1d";
  EXPECT_TRUE(knows("linear"));
}

}  // namespace
}  // namespace linea

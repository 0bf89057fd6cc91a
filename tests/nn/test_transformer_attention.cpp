// What a Transformer does for its attentions: training that changes them between steps, what is
// saved of them, gates, queries of a model that had softmax, and terms added to the loss.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

constexpr int64_t kVocab = 7, kPositions = 16;

ModelConfig model_with(const std::string& attention) {
  ModelConfig config;
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 24;
  config.length = kPositions;
  config.vocab_size = config.input_vocab_size = kVocab;
  config.attentions = {{attention, declared_only(attention, {{"features", 24}, {"codes", 8}})}};
  return config;
}

Tensor salted_ids(int64_t B, int32_t salt) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < B * kPositions; ++i)
    ids.push_back(static_cast<int32_t>((i * i * 3 + i * 5 + salt) % kVocab));
  return Tensor::from(ids, {B, kPositions});
}

// Some steps as training makes them; the losses.
std::vector<double> train(Transformer& model, int64_t steps) {
  Optimizer optimizer({}, model.parameters());
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    model.before_step(step, steps);
    Var auxiliary;
    Var loss = cross_entropy(model.forward(salted_ids(4, 0), true, &auxiliary), salted_ids(4, 3));
    losses.push_back(loss.value().item());
    if (auxiliary.defined()) loss = add(loss, auxiliary);
    backward(loss);
    optimizer.step(3e-3);
    model.after_step();
  }
  return losses;
}

void copy_saved(const Transformer& from, Transformer& to) {
  ASSERT_EQ(from.parameters().size(), to.parameters().size());
  for (size_t i = 0; i < from.parameters().size(); ++i) {
    ASSERT_EQ(from.parameters()[i].name, to.parameters()[i].name);
    write_values(from.parameters()[i].var.value().to_doubles(), to.parameters()[i].var.value());
  }
  const std::vector<Buffer> saved = from.buffers(), loaded = to.buffers();
  ASSERT_EQ(saved.size(), loaded.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    ASSERT_EQ(saved[i].name, loaded[i].name);
    write_values(saved[i].tensor.to_doubles(), loaded[i].tensor);
  }
  to.buffers_changed();
}

// Trained with what changes between steps, saved into a model of another seed, and sampled step by
// step.
TEST(TransformerAttention, TrainedSavedAndSampled) {
  std::vector<ModelConfig> configs;
  for (const char* feature : {"positive", "hyperbolic", "trig", "relu"}) {
    configs.push_back(model_with("performer"));
    configs.back().attentions[0].settings["feature"] = feature;
    configs.back().attentions[0].settings["redraw"] = 3;
  }
  configs.push_back(model_with("soft-vq"));
  configs.back().attentions[0].settings["anneal"] = 0.1;
  for (const char* codebook : {"ema", "gradient"}) {
    configs.push_back(model_with("vq"));
    configs.back().attentions[0].settings["codebook"] = codebook;
  }
  configs.push_back(model_with("linear"));
  configs.back().attentions[0].settings["rule"] = "gated";
  for (ModelConfig config : configs) {
    const std::string what = label_of(config.attentions[0]);
    Transformer model(config);
    const auto all_buffers = [&] {
      std::vector<double> values;
      for (const Buffer& buffer : model.buffers())
        for (const double x : buffer.tensor.to_doubles()) values.push_back(x);
      return values;
    };
    const std::vector<double> before = all_buffers();
    const std::vector<double> losses = train(model, 20);
    EXPECT_LT(losses.back(), losses.front()) << what;
    EXPECT_EQ(all_buffers() == before, before.empty()) << what;

    config.seed = 99;
    Transformer copy(config);
    copy_saved(model, copy);
    const NoGrad no_grad;
    const Tensor ids = salted_ids(3, 1);
    const Tensor expected = model.forward(ids, false).value();
    EXPECT_EQ(copy.forward(ids, false).value().to_doubles(), expected.to_doubles()) << what;
    const std::vector<int32_t> tokens = ids.to_vector<int32_t>();
    const std::vector<double> parallel = expected.to_doubles();
    DecodeState state = copy.start(3);
    double largest = 0, error = 0;
    for (size_t n = 0; n < kPositions; ++n) {
      const std::vector<int32_t> column = {tokens[n], tokens[kPositions + n],
                                           tokens[2 * kPositions + n]};
      const std::vector<double> logits = copy.step(state, Tensor::from(column, {3})).to_doubles();
      for (size_t row = 0; row < 3; ++row)
        for (size_t s = 0; s < kVocab; ++s) {
          const double in_parallel = parallel[(row * kPositions + n) * kVocab + s];
          largest = std::max(largest, std::abs(in_parallel));
          error = std::max(error, std::abs(logits[row * kVocab + s] - in_parallel));
        }
    }
    EXPECT_LE(error, 1e-4 * largest) << what;
  }
}

TEST(TransformerAttention, GatesStartFromTheirBiases) {
  ModelConfig config = model_with("linear");
  config.heads = 8;
  config.bias = false;  // gates have one all the same
  for (const char* rule : {"gated", "delta", "sum"}) {
    config.attentions[0].settings["rule"] = rule;
    const Transformer model(config);
    int64_t found = 0;
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.name.find("gate.") == std::string::npos) continue;
      ++found;
      if (parameter.name.find("gate.weight") != std::string::npos) {
        EXPECT_EQ(parameter.var.shape(), (Shape{8, 16}));
        continue;
      }
      const std::vector<double> biases = parameter.var.value().to_doubles();
      ASSERT_EQ(biases.size(), 8u);
      for (size_t head = 0; head < 8; ++head) {
        const double memory = std::exp2(static_cast<double>(std::min<size_t>(head, 6) + 1));
        const double expected = std::string(rule) == "gated" ? std::log(memory - 1 + 1e-3) : 0.0;
        EXPECT_NEAR(biases[head], expected, 1e-6) << rule << " " << head;
      }
    }
    EXPECT_EQ(found, std::string(rule) == "sum" ? 0 : 4) << rule;
  }
}

TEST(TransformerAttention, QueriesOfASoftmaxModelAreScaledOnce) {
  for (const std::string attention : {"softmax", "linear", "performer", "vq", "soft-vq"}) {
    Transformer model(model_with(attention));
    std::map<std::string, std::vector<double>> before;
    uint32_t stream_id = 70;
    for (const Parameter& parameter : model.parameters()) {
      write_values(random_tensor(parameter.var.shape(), stream_id++).to_doubles(),
                   parameter.var.value());
      before[parameter.name] = parameter.var.value().to_doubles();
    }
    for (int64_t layer = 0; layer < 2; ++layer) model.scale_queries_from_softmax(layer);
    const double factor = attention == "vq" || attention == "soft-vq" ? 1 / std::sqrt(8.0) : 1.0;
    for (const Parameter& parameter : model.parameters()) {
      const std::vector<double> now = parameter.var.value().to_doubles(),
                                then = before[parameter.name];
      const bool is_qkv = parameter.name.find("qkv.") != std::string::npos;
      for (size_t i = 0; i < now.size(); ++i) {
        const bool of_q = is_qkv && i < now.size() / 3;
        ASSERT_NEAR(now[i], then[i] * (of_q ? factor : 1.0), of_q ? 1e-6 : 0.0)
            << attention << " " << parameter.name;
      }
    }
  }
}

TEST(TransformerAttention, TermsAddedToTheLoss) {
  for (const std::string attention : {"softmax", "linear", "performer", "soft-vq"}) {
    const Transformer model(model_with(attention));
    Var auxiliary;
    model.forward(salted_ids(2, 0), true, &auxiliary);
    EXPECT_FALSE(auxiliary.defined()) << attention;
    EXPECT_TRUE(model.statistics().empty()) << attention;
  }
  std::vector<double> terms;
  for (const double commitment : {0.1, 0.2}) {
    for (const int64_t layers : {1, 2}) {
      ModelConfig config = model_with("vq");
      config.attentions[0].settings["commitment"] = commitment;
      config.layers = layers;
      Transformer model(config);
      Var auxiliary;
      const Tensor logits = model.forward(salted_ids(2, 0), true, &auxiliary).value();
      ASSERT_TRUE(auxiliary.defined());
      EXPECT_EQ(model.forward(salted_ids(2, 0), true).value().to_doubles(), logits.to_doubles());
      terms.push_back(auxiliary.value().item());
      backward(auxiliary);
      for (const Parameter& parameter : model.parameters()) {
        if (parameter.name != "blocks.0.qkv.weight") continue;
        ASSERT_TRUE(parameter.var.grad().defined());
      }
      model.after_step();
      const auto statistics = model.statistics();
      ASSERT_EQ(statistics.size(), 3u);
      EXPECT_EQ(statistics[0].first, "vq_usage");
      EXPECT_GT(statistics[0].second, 0);
      EXPECT_LE(statistics[0].second, 1);
    }
  }
  EXPECT_GT(terms[0], 0);
  EXPECT_GT(terms[1], 1.5 * terms[0]);  // layers are added
  EXPECT_NEAR(terms[2], 2 * terms[0], 1e-6 * terms[2]);
  EXPECT_NEAR(terms[3], 2 * terms[1], 1e-6 * terms[3]);
}

// Only what is said to be training counts keys.
TEST(TransformerAttention, EvaluationLeavesTheCodebookAlone) {
  Transformer model(model_with("vq"));
  std::vector<std::vector<double>> before;
  for (const Buffer& buffer : model.buffers()) before.push_back(buffer.tensor.to_doubles());
  model.forward(salted_ids(2, 0), false);
  model.after_step();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(model.buffers()[i].tensor.to_doubles(), before[i]);
}

// An attention that sees every position at once.
class NotCausal final : public Attention {
 public:
  explicit NotCausal(const AttentionOptions& options)
      : Attention(options, {.not_causal = "it mixes the sequence by one product"}) {}
  Var forward(const AttentionInputs& in, const AttentionMask&) const override { return in.v; }
  Var quadratic(const AttentionInputs& in, const AttentionMask&) const override { return in.v; }
  AttentionFlops flops(int64_t) const override { return {}; }
};

TEST(TransformerAttention, NeedsACausalForm) {
  register_attention(
      {.name = "not-causal",
       .summary = "",
       .source = "",
       .settings = {},
       .make = [](const AttentionOptions& options) { return std::make_unique<NotCausal>(options); },
       .variants = {}});
  try {
    const Transformer model(model_with("not-causal"));
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(),
                 "`attention` not-causal has no causal form: it mixes the sequence by one product");
  }
}

// The last position of x [1,H,N,W].
Var last_row(const Var& x) {
  if (!x.defined()) return x;
  const std::vector<double> all = x.value().to_doubles();
  const int64_t H = x.size(1), N = x.size(2), W = x.size(3);
  std::vector<double> row;
  for (int64_t h = 0; h < H; ++h)
    row.insert(row.end(), all.begin() + ((h + 1) * N - 1) * W, all.begin() + (h + 1) * N * W);
  return Var(Tensor::from(row, {1, H, 1, W}, DType::f32));
}

// The states of the layers after all positions but one, which steps of the model made, give with the
// last row of a layer's inputs what its attention gives of all rows.
void expect_inputs_of_layers(const ModelConfig& config) {
  const NoGrad no_grad;
  const Transformer model(config);
  const Tensor ids = salted_ids(1, 2);
  const std::vector<AttentionInputs> inputs = model.attention_inputs(ids);
  ASSERT_EQ(std::ssize(inputs), config.layers);
  DecodeState state = model.start(1);
  for (int64_t n = 0; n + 1 < kPositions; ++n)
    model.step(state,
               Tensor::from(
                   std::vector<int32_t>{ids.to_vector<int32_t>().at(static_cast<size_t>(n))}, {1}));
  for (size_t layer = 0; layer < inputs.size(); ++layer) {
    const AttentionInputs& in = inputs[layer];
    EXPECT_FALSE(in.qkv.defined());
    const Attention& attention = *model.attentions()[layer];
    AttentionInputs last{last_row(in.q), last_row(in.k), last_row(in.v), last_row(in.gate)};
    last.gate_form = in.gate_form;
    const Tensor y = attention.step(*state.layers[layer].attention, last);
    EXPECT_LE(relative_error(y, last_row(attention.forward(in, {})).value().reshape(y.shape())),
              1e-4)
        << "layer " << layer;
  }
}

TEST(TransformerAttention, InputsOfLayersAreWhatTheModelMixes) {
  for (const char* name : {"linear", "softmax", "performer", "gdn"}) {
    SCOPED_TRACE(name);
    expect_inputs_of_layers(model_with(name));
  }
  ModelConfig config = model_with("linear");
  config.reversible = true;
  expect_inputs_of_layers(config);
  config = model_with("softmax");
  config.positions = "rotary";
  expect_inputs_of_layers(config);
  config = model_with("softmax");
  config.layer_convolution = "1d";
  config.attentions = {{"softmax", {}}, {"linear", {{"rule", "gated"}}}};
  expect_inputs_of_layers(config);
}

}  // namespace
}  // namespace linea

#include "nn/transformer.h"

#include <cmath>

#include "autograd/ops.h"

namespace linea {
namespace {

constexpr double kDeviation = 0.02;

// P[n, 2i] = sin(n / 10000^(2i/dim)), P[n, 2i+1] = cos(the same).   (Vaswani 2017, section 3.5)
Tensor sinusoidal_positions(int64_t length, int64_t dim) {
  std::vector<float> values(static_cast<size_t>(length * dim));
  for (int64_t n = 0; n < length; ++n)
    for (int64_t d = 0; d < dim; ++d) {
      const double frequency =
          std::pow(10000.0, -static_cast<double>(d / 2 * 2) / static_cast<double>(dim));
      const double angle = static_cast<double>(n) * frequency;
      values[static_cast<size_t>(n * dim + d)] =
          static_cast<float>(d % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return Tensor::from(values, {length, dim});
}

void check(const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", config.layers}, {"heads", config.heads},           {"dim", config.dim},
      {"ffn", config.ffn},       {"length", config.length},         {"vocabulary", config.vocabulary},
      {"nu", config.attention.nu}};
  for (const auto& [name, value] : sizes)
    require(value >= 1, "--{} is {}; it must be at least 1", name, value);
  require(config.dim % config.heads == 0,
          "--dim {} is not divisible by --heads {}: choose heads that divide it", config.dim,
          config.heads);
  require(config.dropout >= 0 && config.dropout < 1, "--dropout is {}; it must be in [0, 1)",
          config.dropout);
  require(config.positions == "learned" || config.positions == "sinusoidal",
          "--positions is '{}'; choose learned or sinusoidal", config.positions);
}

}  // namespace

Transformer::Transformer(const ModelConfig& config) : config_(config) {
  check(config_);
  AttentionOptions& attention = config_.attention;
  attention.heads = config_.heads;
  attention.key_size = attention.value_size = config_.dim / config_.heads;
  attention_ = make_attention(attention);

  const int64_t dim = config_.dim;
  symbols_ = normal_parameter(parameters_, "symbols", {config_.input_vocabulary, dim}, kDeviation,
                              config_.seed);
  positions_ = config_.positions == "learned"
                   ? normal_parameter(parameters_, "positions", {config_.length, dim}, kDeviation,
                                      config_.seed)
                   : Var(sinusoidal_positions(config_.length, dim));
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".";
    Block block;
    block.norm1 = make_norm(name + "norm1");
    block.qkv = make_linear(name + "qkv", dim, 3 * dim, kDeviation);
    block.out = make_linear(name + "out", dim, dim, residual);
    block.norm2 = make_norm(name + "norm2");
    block.up = make_linear(name + "up", dim, config_.ffn, kDeviation);
    block.down = make_linear(name + "down", config_.ffn, dim, residual);
    blocks_.push_back(block);
  }
  norm_ = make_norm("norm");
  if (!config_.tie) head_ = make_linear("head", dim, config_.vocabulary, kDeviation);
}

Transformer::Linear Transformer::make_linear(const std::string& name, int64_t in, int64_t out,
                                             double deviation) {
  Linear linear;
  linear.weight = normal_parameter(parameters_, name + ".weight", {out, in}, deviation, config_.seed);
  if (config_.bias) linear.bias = constant_parameter(parameters_, name + ".bias", {out}, 0.0);
  return linear;
}

Transformer::Norm Transformer::make_norm(const std::string& name) {
  Norm norm;
  norm.gain = constant_parameter(parameters_, name + ".gain", {config_.dim}, 1.0);
  if (config_.bias) norm.bias = constant_parameter(parameters_, name + ".bias", {config_.dim}, 0.0);
  return norm;
}

// y = x W^T + b
Var Transformer::apply(const Linear& linear, const Var& x) {
  const Var y = matmul(x, linear.weight, false, true);
  return linear.bias.defined() ? add_rows(y, linear.bias) : y;
}

Var Transformer::apply(const Norm& norm, const Var& x) { return layer_norm(x, norm.gain, norm.bias); }

Var Transformer::embed(const Tensor& ids, int64_t first_position) const {
  const int64_t N = ids.size(1);
  require(first_position + N <= config_.length, "{} positions from {} on do not fit the model's length of {}",
          N, first_position, config_.length);
  return add_rows(embedding(symbols_, ids), rows(positions_, first_position, N));
}

Var Transformer::run(const Var& embedded, const Mixer& mix, float rate) const {
  uint32_t lane = 0;
  Var x = dropout(embedded, rate, lane++);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block& block = blocks_[layer];
    const Var qkv = split_heads(apply(block.qkv, apply(block.norm1, x)), 3, config_.heads);
    const Var mixed = mix(layer, select(qkv, 0), select(qkv, 1), select(qkv, 2));
    x = add(x, dropout(apply(block.out, merge_heads(mixed)), rate, lane++));
    const Var hidden = gelu(apply(block.up, apply(block.norm2, x)));
    x = add(x, dropout(apply(block.down, hidden), rate, lane++));
  }
  x = apply(norm_, x);
  if (config_.tie) return matmul(x, rows(symbols_, 0, config_.vocabulary), false, true);
  return apply(head_, x);
}

Var Transformer::forward(const Tensor& ids, bool training) const {
  const Mixer mix = [this](size_t, const Var& q, const Var& k, const Var& v) {
    return attention_->forward(q, k, v, AttentionMask{});
  };
  return run(embed(ids, 0), mix, training ? config_.dropout : 0.0f);
}

DecodeState Transformer::start(int64_t batch) const {
  DecodeState state;
  state.batch = batch;
  for (size_t layer = 0; layer < blocks_.size(); ++layer)
    state.layers.push_back(attention_->start(batch, DType::f32));
  return state;
}

Tensor Transformer::step(DecodeState& state, const Tensor& ids) const {
  const NoGrad no_grad;
  const Mixer mix = [&](size_t layer, const Var& q, const Var& k, const Var& v) {
    const Shape one{state.batch, config_.heads, q.size(3)};
    const Tensor y = attention_->step(*state.layers[layer], q.value().reshape(one),
                                      k.value().reshape(one), v.value().reshape(one));
    return Var(y.reshape(q.shape()));
  };
  const Var logits = run(embed(ids.reshape({state.batch, 1}), state.position), mix, 0.0f);
  ++state.position;
  return logits.value().reshape({state.batch, config_.vocabulary});
}

int64_t Transformer::matrix_weights() const {
  const int64_t dim = config_.dim;
  return config_.layers * (4 * dim * dim + 2 * dim * config_.ffn) + dim * config_.vocabulary;
}

Tensor symbols_tensor(const std::vector<int32_t>& symbols, const Shape& shape, int64_t vocabulary) {
  for (const int32_t symbol : symbols)
    require(symbol >= 0 && symbol < vocabulary, "symbol {} is outside the vocabulary of {}", symbol,
            vocabulary);
  return Tensor::from(symbols, shape);
}

}  // namespace linea

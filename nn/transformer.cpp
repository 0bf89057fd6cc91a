#include "nn/transformer.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "tensor/memory_report.h"
#include "tensor/ops.h"

namespace linea {
namespace {

constexpr double kInitStd = 0.02;
constexpr float kReadOut =
    10;  // of one attention: logits that can be sure, gradients that do not vanish

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

// A matrix with `value` on its diagonal, and `rows` of which those past the columns are 0.
Tensor diagonal(int64_t rows, int64_t columns, float value) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < std::min(rows, columns); ++i)
    values[static_cast<size_t>(i * columns + i)] = value;
  return Tensor::from(values, {rows, columns});
}

// Lanes of dropout: 0 is the embedding's, two a layer follow.
uint32_t lane_of(size_t layer) { return static_cast<uint32_t>(2 * layer + 1); }

void check(const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", config.layers},  {"heads", config.heads},   {"dim", config.dim},
      {"ffn", config.ffn},        {"length", config.length}, {"vocabulary", config.vocab_size},
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
  require(!config.reversible || !config.recompute,
          "--reversible keeps nothing of a block already: leave --recompute out");
  require(!config.reversible || config.stored != DType::bf16,
          "--reversible does not go with --dtype bf16: what is taken off again would lose its "
          "digits; leave one out");
  require(!config.reversible || config.second_vocab_size == 0,
          "--reversible needs blocks of two branches, and a task of pairs has one attention: leave "
          "it out");
  require(
      !config.tie || config.output_head == "categorical",
      "--tie does not go with --output-head {}: its outputs are no tokens; leave one of them out",
      config.output_head);
}

}  // namespace

Transformer::Transformer(const ModelConfig& config) : config_(config) {
  check(config_);
  const MemoryScope scope(MemoryPart::parameters);
  head_ = make_output_head(config_.output_head, config_.vocab_size);
  AttentionOptions& attention = config_.attention;
  attention.heads = config_.heads;
  attention.key_size = attention.value_size = config_.dim / config_.heads;
  attention.seed = config_.seed;

  if (config_.second_vocab_size > 0) {
    make_one_attention();
  } else {
    make_blocks();
  }
}

void Transformer::make_blocks() {
  const int64_t dim = config_.dim;
  token_embedding_ = normal_parameter(parameters_, "token_embedding.weight",
                                      {config_.input_vocab_size, dim}, kInitStd, config_.seed);
  positions_ = config_.positions == "learned"
                   ? normal_parameter(parameters_, "position_embedding.weight",
                                      {config_.length, dim}, kInitStd, config_.seed)
                   : Var(sinusoidal_positions(config_.length, dim));
  const double residual = kInitStd / std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".";
    Block block;
    block.norm1 = make_norm(name + "norm1");
    block.qkv = make_linear(name + "qkv", dim, 3 * dim, kInitStd);
    make_attention_of(block, name, layer);
    block.out = make_linear(name + "out", dim, dim, residual);
    block.norm2 = make_norm(name + "norm2");
    block.up = make_linear(name + "up", dim, config_.ffn, kInitStd);
    block.down = make_linear(name + "down", config_.ffn, dim, residual);
    layers_.blocks.push_back(block);
  }
  layers_.norm = make_norm("norm");
  if (!config_.tie) layers_.head = make_last_linear();
}

// A head that starts from a bias has one in every model.
Transformer::Linear Transformer::make_last_linear() {
  Linear linear = make_linear("output_head", config_.dim, head_->outputs(), kInitStd);
  const std::vector<double> start = head_->initial_bias();
  if (start.empty()) return linear;
  if (!linear.bias.defined())
    linear.bias = constant_parameter(parameters_, "output_head.bias", {head_->outputs()}, 0.0);
  write_values(start, linear.bias.value());
  return linear;
}

void Transformer::make_attention_of(Block& block, const std::string& name, int64_t layer) {
  AttentionOptions options = config_.attention;
  options.layer = layer;
  block.attention = make_attention(options);
  if (block.attention->gated()) block.gate = make_gate(name + "gate", *block.attention);
  if ((config_.recompute || config_.reversible) && block.attention->straight_through())
    fail(ErrorKind::usage,
         "--{} does not go with --attention {}: it counts its codes each time it runs",
         config_.reversible ? "reversible" : "recompute", options.attention);
  for (const Parameter& parameter : block.attention->parameters())
    parameters_.push_back({name + "attention." + parameter.name, parameter.var});
}

// What a state can hold shows best where nothing else can help: no positions, no norms, no residual
// path, no feed-forward layer. Keys and queries are learned, values are fixed one-hot vectors of
// their tokens, and y is read off by a matrix that starts as a diagonal.
//   [q, k] = W [e_token; e_partner]   v = one-hot(second_input)   logits = head(y)
// Source: Schlag 2021, section 6.1 (which has the squared error of y for its loss).
void Transformer::make_one_attention() {
  require(config_.layers == 1 && config_.heads == 1,
          "--layers is {} and --heads {}; a task of pairs is answered by one attention: --layers 1 "
          "--heads 1",
          config_.layers, config_.heads);
  const int64_t dim = config_.dim, values = config_.vocab_size;
  const double stddev = 1 / std::sqrt(2.0 * static_cast<double>(dim));
  config_.attention.value_size = values;
  token_embedding_ = normal_parameter(parameters_, "token_embedding.weight",
                                      {config_.input_vocab_size, dim}, 1.0, config_.seed);
  second_embedding_ = normal_parameter(parameters_, "second_inputs",
                                       {config_.second_vocab_size, dim}, 1.0, config_.seed);
  one_hot_ = Var(diagonal(config_.second_vocab_size, values, 1.0f));
  Block block;
  block.qkv = make_linear("blocks.0.qk", dim, 2 * dim, stddev);
  second_qk_ = make_linear("blocks.0.second_qk", dim, 2 * dim, stddev);
  make_attention_of(block, "blocks.0.", 0);
  layers_.blocks.push_back(block);
  layers_.head.weight = Var(diagonal(values, values, kReadOut), true);
  parameters_.push_back({"output_head.weight", layers_.head.weight});
}

Var Transformer::one_attention(const Tensor& ids, const Tensor& second_inputs,
                               const Mixer& mix) const {
  const Block& block = layers_.blocks.front();
  const Var token = embedding(token_embedding_, ids),
            second_input = embedding(second_embedding_, second_inputs);
  const Var qk = split_heads(add(apply(block.qkv, token), apply(second_qk_, second_input)), 2, 1);
  const Var v = split_heads(embedding(one_hot_, second_inputs), 1, 1);
  Var gates;
  if (block.gate.weight.defined())
    gates = sigmoid_gates(apply(block.gate, add(token, second_input)), config_.heads);
  return apply(layers_.head,
               merge_heads(mix.heads(0, {select(qk, 0), select(qk, 1), select(v, 0), gates})));
}

Transformer::Linear Transformer::make_linear(const std::string& name, int64_t in, int64_t out,
                                             double stddev) {
  Linear linear;
  linear.weight = normal_parameter(parameters_, name + ".weight", {out, in}, stddev, config_.seed);
  if (config_.bias) linear.bias = constant_parameter(parameters_, name + ".bias", {out}, 0.0);
  return linear;
}

// A gate a head; it has a bias in every model, for that is where its memory starts from.
Transformer::Linear Transformer::make_gate(const std::string& name, const Attention& attention) {
  Linear linear;
  linear.weight = normal_parameter(parameters_, name + ".weight", {config_.heads, config_.dim},
                                   kInitStd, config_.seed);
  std::vector<double> start;
  for (int64_t head = 0; head < config_.heads; ++head)
    start.push_back(attention.initial_gate_bias(head));
  linear.bias = constant_parameter(parameters_, name + ".bias", {config_.heads}, 0.0);
  write_values(start, linear.bias.value());
  return linear;
}

Transformer::Norm Transformer::make_norm(const std::string& name) {
  Norm norm;
  norm.weight = constant_parameter(parameters_, name + ".weight", {config_.dim}, 1.0);
  if (config_.bias) norm.bias = constant_parameter(parameters_, name + ".bias", {config_.dim}, 0.0);
  return norm;
}

// y = x W^T + b
Var Transformer::apply(const Linear& linear, const Var& x) {
  const Var y = matmul(x, linear.weight, false, true);
  return linear.bias.defined() ? add_rows(y, linear.bias) : y;
}

// positions [N,dim], of ids [B,N]
Var Transformer::embed(const Tensor& ids, const Var& positions) const {
  const ModuleScope place("embedding");
  require(!second_embedding_.defined(), "this model reads two tokens at a position: give it both");
  return add_rows(embedding(token_embedding_, ids), positions);
}

// Scores [B,N,H] of gates -> [B,H,N] in (0,1).
Var Transformer::sigmoid_gates(const Var& x, int64_t heads) {
  const Var gates = split_heads(pointwise(Pointwise::sigmoid, x), 1, heads);
  return reshape(gates, {x.size(0), heads, x.size(1)});
}

Var Transformer::attend(const Block& block, size_t layer, const Var& residual, const Var& x,
                        const Mixer& mix, float rate) const {
  if (const Var mixed = mix.rows ? mix.rows(layer, x) : Var(); mixed.defined())
    return add_linear(residual, mixed, block.out, rate, lane_of(layer));
  AttentionInputs in;
  in.heads = config_.heads;
  in.qkv = norm_linear(x, block.norm1, block.qkv);
  if (block.gate.weight.defined())
    in.gate = sigmoid_gates(cast(norm_linear(x, block.norm1, block.gate), sum_dtype(x.dtype())),
                            in.heads);
  const bool packed = block.attention->takes_packed();
  if (!block.attention->takes_bf16()) in.qkv = cast(in.qkv, sum_dtype(x.dtype()));
  if (!packed) {
    const Var parts = split_heads(in.qkv, 3, config_.heads);
    in = {select(parts, 0), select(parts, 1), select(parts, 2), in.gate};
  }
  const Var mixed = cast(mix.heads(layer, in), x.dtype());
  return add_linear(residual, packed ? mixed : merge_heads(mixed), block.out, rate, lane_of(layer));
}

Var Transformer::run_block(const Block& block, size_t layer, const Var& x, const Mixer& mix,
                           float rate) const {
  const ModuleScope place("blocks", static_cast<int64_t>(layer));
  if (block.qkv.weight.dtype() != x.dtype())
    return run_block(stored(block, x.dtype()), layer, x, mix, rate);
  const Var attended = attend(block, layer, x, x, mix, rate);
  return add_feed_forward(attended, block.norm2, block.up, block.down, rate, lane_of(layer) + 1);
}

ReversibleLayer Transformer::reversible_block(const Block& block, size_t layer, const Mixer& mix,
                                              float rate) const {
  const auto number = static_cast<int64_t>(layer);
  return {[this, &block, layer, number, mix, rate](const Var& x) {
            const ModuleScope place("blocks", number);
            return attend(block, layer, Var(), x, mix, rate);
          },
          [&block, layer, number, rate](const Var& x) {
            const ModuleScope place("blocks", number);
            return feed_forward(x, block.norm2, block.up, block.down, rate, lane_of(layer) + 1);
          }};
}

Var Transformer::run(const TransformerLayers& layers, const Var& embedded, const Mixer& mix,
                     float rate, bool recompute) const {
  Var x = dropout(config_.stored == DType::bf16 ? cast(embedded, DType::bf16) : embedded, rate, 0);
  std::vector<ReversibleLayer> undone;
  for (size_t layer = 0; layer < layers.blocks.size(); ++layer) {
    const Block& block = layers.blocks[layer];
    if (config_.reversible) {
      undone.push_back(reversible_block(block, layer, mix, rate));
      continue;
    }
    x = recompute ? recomputed(
                        [this, &block, layer, mix, rate](const Var& given) {
                          return run_block(block, layer, given, mix, rate);
                        },
                        x)
                  : run_block(block, layer, x, mix, rate);
  }
  if (config_.reversible) x = reversible(std::move(undone), x);
  const ModuleScope scope("output_head");
  Norm norm = layers.norm;
  Linear head = layers.head.weight.defined() ? layers.head : tied_head();
  store({&norm.weight, &norm.bias, &head.weight, &head.bias}, x.dtype());
  return norm_linear(x, norm, head);
}

// The tokens that are predicted come first.
LinearVars Transformer::tied_head() const {
  return {rows(token_embedding_, 0, config_.vocab_size), Var()};
}

Var Transformer::forward(const Tensor& ids, bool training, const Tensor& second_inputs,
                         Var* auxiliary) const {
  const bool recompute = training && config_.recompute;
  // A block that runs again adds nothing to `auxiliary` (and by then that may be gone).
  if (recompute || config_.reversible) auxiliary = nullptr;
  const Mixer mix{[this, auxiliary](size_t layer, const AttentionInputs& in) {
    Attention& attention = *layers_.blocks[layer].attention;
    if (auxiliary != nullptr) {
      const Var term = attention.auxiliary_loss(in.k);
      if (term.defined()) *auxiliary = auxiliary->defined() ? add(*auxiliary, term) : term;
    }
    return attention.forward(in, AttentionMask{});
  }};
  if (second_inputs.defined()) return one_attention(ids, second_inputs, mix);
  const int64_t N = ids.size(1);
  require(N <= config_.length, "{} positions do not fit the model's length of {}", N,
          config_.length);
  const Var positions = positions_.defined() ? rows(positions_, 0, N) : Var();
  return run(layers_, embed(ids, positions), mix, training ? config_.dropout : 0.0f, recompute);
}

void Transformer::before_step(int64_t step, int64_t steps) {
  for (const Block& block : layers_.blocks) block.attention->before_step(step, steps);
}

void Transformer::after_step() {
  for (const Block& block : layers_.blocks) block.attention->after_step();
}

void Transformer::skip_step() {
  for (const Block& block : layers_.blocks) block.attention->skip_step();
}

bool Transformer::is_capturable() const {
  return std::all_of(layers_.blocks.begin(), layers_.blocks.end(),
                     [](const Block& block) { return block.attention->is_capturable(); });
}

std::vector<std::pair<std::string, double>> Transformer::statistics() const {
  std::vector<std::pair<std::string, double>> result;
  for (const Block& block : layers_.blocks) {
    const auto own = block.attention->statistics();
    result.resize(own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      result[i].first = own[i].first;
      result[i].second += own[i].second / static_cast<double>(layers_.blocks.size());
    }
  }
  return result;
}

std::vector<Buffer> Transformer::buffers() const {
  std::vector<Buffer> result;
  for (size_t layer = 0; layer < layers_.blocks.size(); ++layer)
    for (const Buffer& buffer : layers_.blocks[layer].attention->buffers())
      result.push_back({fmt::format("blocks.{}.attention.{}", layer, buffer.name), buffer.tensor});
  return result;
}

void Transformer::buffers_changed() {
  for (const Block& block : layers_.blocks) block.attention->buffers_changed();
}

// The first `dim` rows of qkv, and of a second_input's q and k, are those of q.
void Transformer::scale_queries_from_softmax() {
  for (const Block& block : layers_.blocks) {
    const double factor = block.attention->scale_from_softmax();
    if (factor == 1) continue;
    for (const Var& part : {block.qkv.weight, block.qkv.bias, second_qk_.weight, second_qk_.bias}) {
      if (!part.defined()) continue;
      const Tensor q = part.value().rows(0, config_.dim), scaled = ops::scale(q, factor);
      write_values(scaled.to_doubles(), q);
    }
  }
}

// All panels lie in one piece of memory, in the order in which a step reads them.
void Transformer::pack(TransformerLayers& layers) const {
  std::vector<Linear*> linears;
  for (Block& block : layers.blocks)
    for (Linear* linear : {&block.qkv, &block.gate, &block.out, &block.up, &block.down})
      if (linear->weight.defined()) linears.push_back(linear);
  if (layers.head.weight.defined()) linears.push_back(&layers.head);
  int64_t total = 0, next = 0;
  for (const Linear* linear : linears) total += ops::panels_shape(linear->weight.value()).numel();
  const Tensor all({total}, config_.panels);
  for (Linear* linear : linears) {
    const Shape shape = ops::panels_shape(linear->weight.value());
    linear->panels = all.rows(next, shape.numel()).reshape(shape);
    ops::pack_panels_into(linear->weight.value(), linear->panels);
    next += shape.numel();
  }
}

void Transformer::store(std::vector<Var*> parts, DType dtype) {
  std::erase_if(parts,
                [dtype](const Var* part) { return !part->defined() || part->dtype() == dtype; });
  std::vector<Var> all;
  for (const Var* part : parts) all.push_back(*part);
  const std::vector<Var> stored = cast_all(all, dtype);
  for (size_t i = 0; i < parts.size(); ++i) *parts[i] = stored[i];
}

Transformer::Block Transformer::stored(Block block, DType dtype) {
  std::vector<Var*> parts;
  for (Norm* norm : {&block.norm1, &block.norm2})
    parts.insert(parts.end(), {&norm->weight, &norm->bias});
  for (Linear* linear : {&block.qkv, &block.gate, &block.out, &block.up, &block.down})
    parts.insert(parts.end(), {&linear->weight, &linear->bias});
  store(parts, dtype);
  return block;
}

int64_t Transformer::matrix_weights() const {
  const int64_t dim = config_.dim;
  if (config_.second_vocab_size > 0) return 4 * dim * dim + config_.vocab_size * config_.vocab_size;
  return config_.layers * (4 * dim * dim + 2 * dim * config_.ffn) + dim * head_->outputs();
}

Tensor token_tensor(const std::vector<int32_t>& tokens, const Shape& shape, int64_t vocab_size) {
  for (const int32_t token : tokens)
    require(token >= 0 && token < vocab_size, "token {} is outside the vocabulary of {}", token,
            vocab_size);
  return Tensor::from(tokens, shape);
}

}  // namespace linea

#include "nn/model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "nn/embedding.h"
#include "nn/retrieval_model.h"
#include "nn/self_attention.h"
#include "nn/transformer.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea {
namespace {

void check_skip_blank(const ModelConfig& config) {
  if (!config.skip_blank) return;
  require(
      config.image_width > 0 && config.causal && config.vocab_size < config.input_vocab_size,
      "`skip_blank` needs images whose pixels are predicted, each from those before it: leave it "
      "out");
  require(config.positions != "rotary",
          "`skip_blank` does not go with `positions` rotary, which counts rows: choose other "
          "`positions`, or leave `skip_blank` out");
  require(
      config.dropout == 0,
      "`skip_blank` does not go with `dropout` {}: its random numbers count rows; leave one out",
      config.dropout);
}

const ModelConfig& checked(const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", config.layers}, {"heads", config.heads},   {"dim", config.dim},
      {"ffn", config.ffn},       {"length", config.length}, {"vocabulary", config.vocab_size}};
  for (const auto& [name, value] : sizes)
    require(value >= 1, "`{}` is {}; it must be at least 1", name, value);
  const auto items = static_cast<int64_t>(config.attentions.size());
  require(items <= config.layers,
          "`attention` names {} attentions and `layers` is {}: name fewer, or give each a layer",
          items, config.layers);
  require(config.dim % config.heads == 0,
          "`dim` {} is not divisible by `heads` {}: choose heads that divide it", config.dim,
          config.heads);
  require(config.dropout >= 0 && config.dropout < 1, "`dropout` is {}; it must be in [0, 1)",
          config.dropout);
  check_choice("positions", config.positions, position_kinds());
  require(config.positions != "learned+grid" || config.image_width > 0,
          "`positions` learned+grid needs images: choose learned, or a task of images");
  require(config.positions != "none" || config.causal || config.layer_convolution != "none",
          "`positions` none: rows that read both sides would know nothing of their order; choose "
          "other `positions`, a `layer_convolution` or `mask` causal");
  check_choice("class_embedding", config.class_embedding, {"first", "every"});
  require(config.class_embedding == "first" || config.classes > 0,
          "`class_embedding` every needs classes: choose first, or a task of images with "
          "`class_token`");
  check_choice("layer_convolution", config.layer_convolution, convolution_kinds());
  require(config.layer_convolution != "2d" || config.image_width >= 2,
          "`layer_convolution` 2d needs images of at least two pixels a row: choose 1d, or a task "
          "of images");
  check_skip_blank(config);
  check_choice("attention_output", config.attention_output, attention_output_kinds());
  require(!config.reversible || !config.recompute,
          "`reversible` keeps nothing of a block already: leave `recompute` out");
  require(!config.reversible || config.stored != DType::bf16,
          "`reversible` does not go with `dtype` bf16: the inputs that its backward restores "
          "would lose digits; leave one out");
  require(
      !config.tie || config.output_head == "categorical",
      "`tie` does not go with `output_head` {}: its outputs are no tokens; leave one of them out",
      config.output_head);
  return config;
}

}  // namespace

AttentionOptions ModelConfig::attention_of(int64_t layer) const {
  AttentionOptions options = attentions[static_cast<size_t>(layer) % attentions.size()];
  options.heads = heads;
  options.key_size = dim / heads;
  options.value_size = second_vocab_size > 0 ? vocab_size : options.key_size;
  options.length = length;
  options.rotary = positions == "rotary";
  options.seed = static_cast<uint64_t>(seed);
  options.layer = layer;
  options.turn = layer / static_cast<int64_t>(attentions.size());
  options.image_width = skip_blank ? 0 : image_width;  // rows are not all of an image's
  options.image_channels = skip_blank ? 0 : image_channels;
  return options;
}

double ModelConfig::residual_std() const {
  return kInitStd / std::sqrt(2.0 * static_cast<double>(layers));
}

size_t DecodeState::bytes() const {
  size_t sum = classes.defined() ? classes.bytes() : 0;
  if (hidden.defined()) sum += hidden.bytes();
  for (const LayerState& layer : layers) sum += layer.bytes();
  return sum;
}

Model::Model(const ModelConfig& config)
    : config_(checked(config)), head_(config.output_head, config.vocab_size) {}

DecodeState Model::start(int64_t) const {
  fail(ErrorKind::usage, "this model reads two tokens at a position and does not sample");
}

Tensor Model::step(DecodeState& state, const Tensor& ids) const {
  begin_position(state);
  return decode(state, ids);
}

void Model::begin_position(DecodeState& state) const {
  require(!config_.skip_blank, "a model with `skip_blank` samples by sample_tokens() alone");
  const std::vector<int32_t> positions(static_cast<size_t>(state.device_position.numel()),
                                       static_cast<int32_t>(state.position));
  count_position(state);
  state.device_position.write(positions.data());
}

void Model::count_position(DecodeState& state) const {
  require(state.position < config_.length || is_unbounded(),
          "position {} does not fit the model's length of {}", state.position, config_.length);
  ++state.position;
}

void Model::skip(DecodeState& state, int64_t sequence, int64_t first, int64_t end) const {
  for (const LayerState& layer : state.layers)
    for (const ConvolutionState* each : {&layer.convolution, &layer.feed_forward})
      each->clear(sequence, first, end);
}

bool Model::is_step_capturable() const {
  return !config_.skip_blank &&
         std::all_of(attentions_.begin(), attentions_.end(),
                     [](const auto& attention) { return attention->traits().step_capturable; });
}

bool Model::knows_order() const {
  return config_.positions != "none" || config_.layer_convolution != "none" ||
         std::any_of(attentions_.begin(), attentions_.end(),
                     [](const auto& attention) { return !attention->traits().any_order; });
}

bool Model::is_unbounded() const {
  return config_.positions == "none" &&
         std::all_of(attentions_.begin(), attentions_.end(), [](const auto& attention) {
           return attention->traits().state_growth == 0 && attention->traits().any_length;
         });
}

void Model::before_step(int64_t step, int64_t steps) {
  for (const auto& attention : attentions_) attention->before_step(step, steps);
}

void Model::after_step() {
  for (const auto& attention : attentions_) attention->after_step();
}

void Model::skip_step() {
  for (const auto& attention : attentions_) attention->skip_step();
}

bool Model::is_capturable() const {
  return !config_.skip_blank &&  // the host counts positions
         std::all_of(attentions_.begin(), attentions_.end(),
                     [](const auto& attention) { return attention->traits().training_capturable; });
}

std::vector<std::pair<std::string, double>> Model::statistics() const {
  std::vector<std::pair<std::string, double>> result;
  std::map<std::string, std::pair<double, int64_t>> sums;  // with how many layers have it
  for (const auto& attention : attentions_)
    for (const auto& [name, value] : attention->statistics()) {
      if (sums.count(name) == 0) result.emplace_back(name, 0);
      sums[name].first += value;
      ++sums[name].second;
    }
  for (auto& [name, value] : result)
    value = sums[name].first / static_cast<double>(sums[name].second);
  return result;
}

std::vector<Buffer> Model::buffers() const {
  std::vector<Buffer> result;
  for (size_t layer = 0; layer < attentions_.size(); ++layer)
    for (const Buffer& buffer : attentions_[layer]->buffers())
      result.push_back({fmt::format("blocks.{}.attention.{}", layer, buffer.name), buffer.tensor});
  return result;
}

void Model::buffers_changed() {
  for (const auto& attention : attentions_) attention->buffers_changed();
}

void Model::scale_queries(const std::vector<Var>& parameters, double factor) const {
  if (factor == 1) return;
  for (const Var& parameter : parameters) {
    if (!parameter.defined()) continue;
    const Tensor q = parameter.value().rows(0, config_.dim);
    write_values(ops::scale(q, factor).to_doubles(), q);
  }
}

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  if (config.second_vocab_size > 0) return std::make_unique<RetrievalModel>(config);
  return std::make_unique<Transformer>(config);
}

Tensor token_tensor(const std::vector<int32_t>& tokens, const Shape& shape, int64_t vocab_size) {
  for (const int32_t token : tokens)
    require(token >= 0 && token < vocab_size, "token {} is outside the vocabulary of {}", token,
            vocab_size);
  return Tensor::from(tokens, shape);
}

}  // namespace linea

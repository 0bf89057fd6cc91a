#include "nn/transformer_block.h"

#include "nn/model.h"

namespace linea {
namespace {

std::string prefix_of_layer(int64_t layer) { return "blocks." + std::to_string(layer) + "."; }

// Streams of dropout: 0 is the embedding's, two a layer follow.
uint32_t first_stream(int64_t layer) { return static_cast<uint32_t>(2 * layer + 1); }

// Null where the pass has no states.
LayerState* state_of(const BlockPass& pass, int64_t layer) {
  return pass.states == nullptr ? nullptr : &(*pass.states)[static_cast<size_t>(layer)];
}

}  // namespace

FeedForward::FeedForward(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
                         uint32_t dropout_stream)
    : convolution(init, prefix + "convolution2", config),
      norm(init, prefix + "norm2", config.dim, config.bias),
      up(init, prefix + "up", config.dim, config.ffn, kInitStd, config.bias, 1),
      down(init, prefix + "down", config.ffn, config.dim, config.residual_std(), config.bias, 1),
      stream_id(dropout_stream) {}

Var FeedForward::forward(const Var& residual, const Var& x, const BlockPass& pass,
                         LayerState* state) const {
  const Var input =
      convolution.forward(x, state == nullptr ? nullptr : &state->feed_forward, pass.convolution);
  return add_feed_forward(residual, input, norm, up, down, {pass.dropout, stream_id});
}

std::vector<Var*> FeedForward::weights() {
  return {&convolution.weight, &norm.weight, &norm.bias, &up.weight, &up.bias,
          &down.weight,        &down.bias};
}

TransformerBlock::TransformerBlock(ParameterInit& init, const ModelConfig& config, int64_t index)
    : layer(index),
      attention(init, prefix_of_layer(layer), config, layer, first_stream(layer)),
      feed_forward(init, prefix_of_layer(layer), config, first_stream(layer) + 1) {}

Var TransformerBlock::forward(const Var& x, const BlockPass& pass) const {
  const ModuleScope scope("blocks", layer);
  LayerState* const state = state_of(pass, layer);
  if (state == nullptr && attention.qkv.weight.dtype() != x.dtype()) {
    TransformerBlock stored = *this;
    cast_weights(stored.weights(), x.dtype());
    return stored.forward(x, pass);
  }
  const Var mixed = attention.forward(x, x, pass, state);
  return feed_forward.forward(mixed, mixed, pass, state);
}

ReversibleLayer TransformerBlock::reversible_layer(const BlockPass& pass) const {
  return {[this, pass](const Var& x) {
            const ModuleScope scope("blocks", layer);
            return attention.forward(Var(), x, pass, state_of(pass, layer));
          },
          [this, pass](const Var& x) {
            const ModuleScope scope("blocks", layer);
            return feed_forward.forward(Var(), x, pass, state_of(pass, layer));
          }};
}

LayerState TransformerBlock::start(const Tensor& positions, DType stored) const {
  return {attention.attention->start(
              positions.size(0), attention.attention->traits().bf16_inputs ? stored : DType::f32),
          attention.convolution.start(positions, stored),
          feed_forward.convolution.start(positions, stored)};
}

std::vector<Linear*> TransformerBlock::linears() {
  std::vector<Linear*> all = attention.linears();
  all.insert(all.end(), {&feed_forward.up, &feed_forward.down});
  return all;
}

std::vector<Var*> TransformerBlock::weights() {
  std::vector<Var*> all = feed_forward.weights();
  all.insert(all.end(), {&attention.norm.weight, &attention.norm.bias,
                         &attention.convolution.weight, &attention.output_norm});
  for (Linear* linear : attention.linears())
    all.insert(all.end(), {&linear->weight, &linear->bias});
  return all;
}

}  // namespace linea

#include "nn/transformer_block.h"

#include "nn/model.h"

namespace linea {
namespace {

std::string prefix_of_layer(int64_t layer) { return "blocks." + std::to_string(layer) + "."; }

// Streams of dropout: 0 is the embedding's, two a layer follow.
uint32_t first_stream(int64_t layer) { return static_cast<uint32_t>(2 * layer + 1); }

}  // namespace

TransformerBlock::TransformerBlock(ParameterInit& init, const ModelConfig& config, int64_t index)
    : layer(index),
      attention(init, prefix_of_layer(layer), config, layer, first_stream(layer)),
      feed_forward(init, prefix_of_layer(layer), config, first_stream(layer) + 1) {}

Var TransformerBlock::forward(const Var& x, float dropout, const PassRows& rows,
                              Var* auxiliary) const {
  const ModuleScope scope("blocks", layer);
  if (attention.qkv.weight.dtype() != x.dtype()) {
    TransformerBlock stored = *this;
    cast_weights(stored.weights(), x.dtype());
    return stored.forward(x, dropout, rows, auxiliary);
  }
  const Var mixed = attention.forward(x, x, dropout, rows, auxiliary);
  return feed_forward.forward(mixed, mixed, dropout, nullptr, rows.convolution);
}

ReversibleLayer TransformerBlock::reversible_layer(float dropout, const PassRows& rows,
                                                   LayerState* state) const {
  return {[this, dropout, rows, state](const Var& x) {
            const ModuleScope scope("blocks", layer);
            return state != nullptr ? attention.step(Var(), x, *state)
                                    : attention.forward(Var(), x, dropout, rows);
          },
          [this, dropout, rows, state](const Var& x) {
            const ModuleScope scope("blocks", layer);
            return feed_forward.forward(Var(), x, dropout,
                                        state != nullptr ? &state->feed_forward : nullptr,
                                        rows.convolution);
          }};
}

Var TransformerBlock::step(const Var& x, LayerState& state) const {
  const ModuleScope scope("blocks", layer);
  const Var mixed = attention.step(x, x, state);
  return feed_forward.forward(mixed, mixed, 0, &state.feed_forward);
}

LayerState TransformerBlock::start(const Tensor& positions, DType stored) const {
  return {attention.attention->start(
              positions.size(0), attention.attention->traits().bf16_inputs ? stored : DType::f32),
          attention.convolution.start(positions, stored),
          feed_forward.convolution.start(positions, stored)};
}

std::vector<Linear*> TransformerBlock::linears() {
  std::vector<Linear*> all;
  for (Linear* linear : std::initializer_list<Linear*>{
           &attention.qkv, &attention.gate.down, &attention.gate, &attention.output_gate,
           &attention.out, &feed_forward.up, &feed_forward.down})
    if (linear->weight.defined()) all.push_back(linear);
  return all;
}

std::vector<Var*> TransformerBlock::weights() {
  std::vector<Var*> all;
  for (LayerNorm* norm : {&attention.norm, &feed_forward.norm})
    all.insert(all.end(), {&norm->weight, &norm->bias});
  all.insert(all.end(), {&attention.convolution.weight, &attention.output_norm,
                         &feed_forward.convolution.weight});
  for (Linear* linear : linears()) all.insert(all.end(), {&linear->weight, &linear->bias});
  return all;
}

}  // namespace linea

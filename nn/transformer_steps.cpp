// The recurrent form of the Transformer: one position after another, by states of the attentions.
#include <algorithm>

#include "nn/transformer.h"
#include "tensor/kernels.h"
#include "tensor/ops.h"

namespace linea {

DecodeState Transformer::start(int64_t batch) const {
  const NoGrad no_grad;
  DecodeState weights;
  weights.packed = layers_;
  if (config_.tie) weights.packed.head = tied_head();
  if (context().sizes.panels) {
    pack(weights.packed);
  } else if (config_.stored == DType::bf16) {
    for (Block& block : weights.packed.blocks) block = stored(block, DType::bf16);
    Norm& norm = weights.packed.norm;
    Linear& head = weights.packed.head;
    store({&norm.weight, &norm.bias, &head.weight, &head.bias}, DType::bf16);
  }
  return start(batch, weights);
}

DecodeState Transformer::start(int64_t batch, const DecodeState& beside) const {
  DecodeState state;
  state.batch = batch;
  state.place = Tensor::zeros({batch}, DType::i32);
  state.packed = beside.packed;
  for (const Block& block : layers_.blocks) {
    const Attention& attention = *block.attention;
    state.layers.push_back(
        attention.start(batch, attention.takes_bf16() ? config_.stored : DType::f32));
  }
  return state;
}

Tensor Transformer::step(DecodeState& state, const Tensor& ids) const {
  begin_position(state);
  return work(state, ids);
}

void Transformer::begin_position(DecodeState& state) const {
  const std::vector<int32_t> places(static_cast<size_t>(state.batch),
                                    static_cast<int32_t>(state.position));
  count_position(state);
  device_memory(state.place.device())
      .write(context(), state.place.address(), places.data(), state.place.bytes());
}

void Transformer::count_position(DecodeState& state) const {
  require(state.position < config_.length, "position {} does not fit the model's length of {}",
          state.position, config_.length);
  ++state.position;
}

bool Transformer::is_step_capturable() const {
  return std::all_of(layers_.blocks.begin(), layers_.blocks.end(),
                     [](const Block& block) { return block.attention->is_step_capturable(); });
}

Tensor Transformer::work(DecodeState& state, const Tensor& ids) const {
  const NoGrad no_grad;
  const int64_t B = state.batch, H = config_.heads;
  Mixer mix;
  mix.heads = [&](size_t layer, const AttentionInputs& in) {
    AttentionStep now;
    if (in.gate.defined()) now.gate = in.gate.value().reshape({B, H});
    if (in.qkv.defined()) {
      now.qkv = in.qkv.value().reshape({B, 3 * config_.dim});
    } else {
      const Shape one{B, H, in.q.size(3)};
      now.q = in.q.value().reshape(one);
      now.k = in.k.value().reshape(one);
      now.v = in.v.value().reshape(one);
    }
    const Tensor y = layers_.blocks[layer].attention->step(*state.layers[layer], now);
    return Var(y.reshape(in.qkv.defined() ? Shape{B, 1, config_.dim} : in.q.shape()));
  };
  mix.rows = [&](size_t layer, const Var& x) {
    const Block& block = state.packed.blocks[layer];
    if (block.qkv.panels.defined() || block.gate.weight.defined()) return Var();
    const auto value = [](const Var& part) { return part.defined() ? part.value() : Tensor(); };
    const AttentionSource source{x.value().reshape({B, config_.dim}),
                                 {value(block.norm1.weight), value(block.norm1.bias)},
                                 value(block.qkv.weight),
                                 value(block.qkv.bias)};
    const Tensor y = layers_.blocks[layer].attention->step_from(*state.layers[layer], source);
    return y.defined() ? Var(y.reshape(x.shape())) : Var();
  };
  require(!second_embedding_.defined(),
          "this model reads two tokens at a position and does not draw");
  const DType stored = config_.stored == DType::bf16 ? DType::bf16 : token_embedding_.dtype();
  const Tensor embedded = ops::embed_position(token_embedding_.value(), ids.reshape({state.batch}),
                                              positions_.value(), state.place, stored);
  const Var outputs =
      run(state.packed, Var(embedded.reshape({state.batch, 1, config_.dim})), mix, 0.0f);
  return outputs.value().reshape({state.batch, head_->outputs()});
}

}  // namespace linea

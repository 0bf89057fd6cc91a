#include "nn/transformer.h"

#include "autograd/layer_boundary.h"
#include "autograd/ops.h"
#include "autograd/sequence_part.h"
#include "nn/blank.h"
#include "tensor/context.h"
#include "tensor/memory_report.h"
#include "tensor/ops.h"

namespace linea {
namespace {

constexpr int64_t kBlankWidth = 32;

}  // namespace

Transformer::Transformer(const ModelConfig& config) : Model(config) {
  const MemoryScope scope(MemoryPart::parameters);
  ParameterInit init(parameters_, static_cast<uint64_t>(config_.seed));
  tokens_ = Embedding(init, "token_embedding", config_.input_vocab_size, config_.dim, kInitStd);
  positions_ = PositionEmbedding(init, config_);
  classes_ = ClassEmbedding(init, config_);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    blocks_.emplace_back(init, config_, layer);
    attentions_.push_back(blocks_.back().attention.attention);
  }
  norm_ = LayerNorm(init, "norm", config_.dim, config_.bias);
  if (!config_.tie) {  // an output head that starts from a bias has one in every model
    const std::vector<double> bias = head_.initial_bias();
    output_ = Linear(init, "output_head", config_.dim, head_.outputs(), kInitStd,
                     config_.bias || !bias.empty());
    if (!bias.empty()) write_values(bias, output_.bias.value());
  }
  if (!config_.skip_blank) return;
  ModelConfig small = config_;
  small.ffn = kBlankWidth;
  small.layer_convolution = "none";
  blank_.emplace(init, "blank.", small, 0);
}

Var Transformer::outputs(const Var& x) const {
  const ModuleScope scope("output_head");
  LayerNorm norm = norm_;
  Linear output = output_;
  if (!output.weight.defined()) output.weight = tied_weight();
  cast_weights({&norm.weight, &norm.bias, &output.weight, &output.bias}, x.dtype());
  return norm_linear(x, norm, output);
}

// E[token] + C[class] + P[position], in the dtype of activations.
Var Transformer::embed(const Tensor& ids) const {
  const SequencePart* const part = sequence_part();
  const int64_t first = part == nullptr ? 0 : part->first(), end = first + ids.size(1);
  require(end <= config_.length || part != nullptr,
          "{} positions do not fit the model's length of {}", end, config_.length);
  const ModuleScope scope("embedding");
  const Var x = positions_.forward(classes_.forward(tokens_.forward(ids), ids), first);
  return config_.stored == DType::bf16 ? cast(x, DType::bf16) : x;
}

Var Transformer::forward(const ModelInputs& in, bool training, Var* auxiliary) const {
  return outputs(run(in, training, {.auxiliary = auxiliary}));
}

Var Transformer::run(const ModelInputs& in, bool training, BlockPass pass) const {
  pass.dropout = training ? static_cast<float>(config_.dropout) : 0;
  pass.mask = {config_.causal, in.valid};
  const Var x = dropout(embed(in.ids), pass.dropout, 0);
  return blank_ ? run_packed(x, in.ids, training, pass) : run_blocks(x, training, pass);
}

Var Transformer::run_blocks(Var x, bool training, BlockPass pass) const {
  const bool recomputes = training && config_.recompute;
  if (recomputes || config_.reversible) pass.auxiliary = nullptr;  // blocks run twice
  if (config_.reversible) {
    std::vector<ReversibleLayer> layers;
    for (const TransformerBlock& block : blocks_) layers.push_back(block.reversible_layer(pass));
    return layer_boundary(reversible(std::move(layers), x), config_.layers);
  }
  for (const TransformerBlock& block : blocks_) {
    const auto forward = [&block, pass](const Var& input) { return block.forward(input, pass); };
    x = layer_boundary(x, block.layer);
    x = recomputes ? recomputed(forward, x) : forward(x);
  }
  return layer_boundary(x, config_.layers);
}

Var Transformer::run_packed(const Var& x, const Tensor& ids, bool training, BlockPass pass) const {
  const PackedPositions positions(ids, config_);
  const int64_t dim = config_.dim;
  const Var all = reshape(x, {ids.numel(), dim});
  pass.mask.valid = positions.lengths;
  pass.convolution = positions.convolution;
  const Var h = reshape(run_blocks(embedding(all, positions.computed), training, pass),
                        {positions.computed.numel(), dim});
  const Var u = add(embedding(all, positions.blank), embedding(h, positions.before));
  FeedForward layer = *blank_;
  cast_weights(layer.weights(), u.dtype());
  const Var blank = layer.forward(u, u, {}, nullptr);
  return embedding(concatenate({h, blank}), positions.order);
}

std::vector<AttentionInputs> Transformer::attention_inputs(const ModelInputs& in) const {
  require(config_.stored == DType::f32, "what attentions mix is shown of models in float32");
  const NoGrad no_grad;
  std::vector<AttentionInputs> all;
  run(in, false, {.inputs = &all});
  return all;
}

// A copy of the model shares its parameters until they are packed or cast.
void Transformer::prepare_for_sampling() {
  const NoGrad no_grad;
  if (config_.tie) output_.weight = tied_weight();
  positions_.weight = positions_.table(config_.length);
  positions_.axes.clear();
  std::vector<Linear*> linears;
  for (TransformerBlock& block : blocks_)
    for (Linear* linear : block.linears()) linears.push_back(linear);
  if (blank_) linears.insert(linears.end(), {&blank_->up, &blank_->down});
  linears.push_back(&output_);
  if (context().sizes.panels) return pack_panels(linears, config_.panels);
  for (TransformerBlock& block : blocks_) cast_weights(block.weights(), config_.stored);
  if (blank_) cast_weights(blank_->weights(), config_.stored);
  cast_weights({&norm_.weight, &norm_.bias, &output_.weight, &output_.bias}, config_.stored);
}

DecodeState Transformer::start(int64_t batch) const {
  require(
      config_.causal,
      "this model reads what follows a token, too, and does not sample: train with `mask` causal");
  DecodeState state;
  state.device_position = Tensor::zeros({batch}, DType::i32);
  if (classes_.weight.defined()) state.classes = Tensor::zeros({batch}, DType::i32);
  if (blank_) state.hidden = Tensor::zeros({batch, config_.dim}, config_.stored);
  for (const TransformerBlock& block : blocks_)
    state.layers.push_back(block.start(state.device_position, config_.stored));
  const auto weights = std::make_shared<Transformer>(*this);
  weights->prepare_for_sampling();
  state.weights = weights;
  return state;
}

// E[id] + C[class] + P[position] of one position, [B,dim].
Tensor Transformer::embed_position(const DecodeState& state, const Tensor& ids) const {
  const Tensor& position = state.device_position;
  const Tensor tokens = tokens_.weight.value(),
               table = state.weights->positions_.weight.value_or_none();
  if (table.defined() && !classes_.weight.defined())
    return ops::embed_position(tokens, ids, table, position, config_.stored);
  Tensor x = classes_.step(ops::embedding(tokens, ids), ids, position, state.classes);
  if (table.defined()) x = ops::add(x, ops::embedding(table, position));
  return ops::cast(x, config_.stored);
}

Tensor Transformer::decode(DecodeState& state, const Tensor& ids) const {
  const NoGrad no_grad;
  const Transformer& model = *state.weights;
  const int64_t B = ids.numel();
  const Var embedded(embed_position(state, ids.reshape({B})).reshape({B, 1, config_.dim})),
      x = model.run_blocks(embedded, false, {.states = &state.layers});
  if (blank_) ops::copy_into(x.value().reshape({B, config_.dim}), state.hidden);
  return model.outputs(x).value().reshape({B, head_.outputs()});
}

// The token before a blank position is background.
Tensor Transformer::decode_blank(const DecodeState& state, const Tensor& sequences,
                                 const Tensor& positions) const {
  const NoGrad no_grad;
  const Transformer& model = *state.weights;
  const int64_t K = sequences.numel();
  const auto plus = [](const Tensor& x, const Tensor& table, const Tensor& ids) {
    return ops::add(x, ops::embedding(table, ids));
  };
  Tensor u = ops::embedding(tokens_.weight.value(), Tensor::zeros({K}, DType::i32));
  if (classes_.weight.defined())
    u = plus(u, ops::embedding(classes_.weight.value(), state.classes), sequences);
  if (model.positions_.weight.defined()) u = plus(u, model.positions_.weight.value(), positions);
  u = ops::cast(u, config_.stored);
  const Var x(plus(u, state.hidden, sequences).reshape({K, 1, config_.dim}));
  return model.outputs(model.blank_->forward(x, x, {}, nullptr))
      .value()
      .reshape({K, head_.outputs()});
}

void Transformer::scale_queries_from_softmax(int64_t layer) {
  const SelfAttention& branch = blocks_[static_cast<size_t>(layer)].attention;
  scale_queries({branch.qkv.weight, branch.qkv.bias},
                branch.attention->traits().scale_from_softmax);
}

int64_t Transformer::matrix_weights() const {
  const int64_t dim = config_.dim, outputs = config_.attention_output == "gated" ? 2 : 1;
  int64_t matrices = config_.layers * outputs;
  for (const auto& layer : attentions_) matrices += std::ssize(projections(layer->traits()));
  return matrices * dim * dim + config_.layers * 2 * dim * config_.ffn + dim * head_.outputs();
}

}  // namespace linea

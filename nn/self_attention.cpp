#include "nn/self_attention.h"

#include "autograd/rotary.h"
#include "nn/model.h"

namespace linea {

std::shared_ptr<Attention> make_layer_attention(const ModelConfig& config, int64_t layer) {
  const AttentionOptions options = config.attention_of(layer);
  std::shared_ptr<Attention> attention = make_attention(options);
  const AttentionTraits& traits = attention->traits();
  attention->require_form(config.causal);
  if ((config.recompute || config.reversible) && !traits.recomputable)
    fail(ErrorKind::usage,
         "`{}` does not go with `attention` {}: it counts its codes, or adds to the loss, each "
         "time it runs",
         config.reversible ? "reversible" : "recompute", options.name);
  if (config.positions != "rotary") return attention;
  require(traits.rotary != Rotary::none,
          "`positions` rotary goes with softmax attention and with rules without denominator, not "
          "with `attention` {}: choose other `positions`",
          label_of(options));
  require(context().device.kind == DeviceKind::cpu,
          "`positions` rotary has no kernels for `device` cuda yet: choose other `positions`, or "
          "leave `device` out");
  return attention;
}

void add_parameters(ParameterInit& init, const std::string& prefix, const Attention& attention) {
  for (Parameter& parameter : attention.parameters()) {
    parameter.name = prefix + "attention." + parameter.name;
    init.add(parameter);
  }
}

GateLayer::GateLayer(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
                     const Attention& attention) {
  const GateSpec& spec = attention.gate();
  size = spec.size;
  if (size == 0) return;
  if (spec.rank > 0)
    down = Linear(init, prefix + "gate_down", config.dim, spec.rank, kInitStd, false);
  Linear& up = *this;
  up = Linear(init, prefix + "gate", spec.rank > 0 ? spec.rank : config.dim, config.heads * size,
              kInitStd, true);
  if (!spec.initial_bias.empty()) write_values(spec.initial_bias, bias.value());
}

void GateLayer::add_gates(AttentionInputs& in, const Var& x, const LayerNorm* norm) const {
  if (size == 0) return;
  const auto first = [&](const Linear& layer) {
    return norm != nullptr ? norm_linear(x, *norm, layer) : layer.forward(x);
  };
  const Var scores = down.weight.defined() ? Linear::forward(first(down)) : first(*this);
  const int64_t B = x.size(0), N = x.size(1), H = scores.size(2) / size;
  const Var logits = cast(scores, sum_dtype(x.dtype()));
  in.gate = reshape(split_heads(logits, 1, H), {B, H, N, size});
  in.gate_form = GateForm::logit;
}

void add_auxiliary_loss(Attention& attention, const AttentionInputs& in, const AttentionMask& mask,
                        Var* auxiliary) {
  if (auxiliary == nullptr) return;
  const Var term = attention.auxiliary_loss(in, mask);
  if (term.defined()) *auxiliary = auxiliary->defined() ? add(*auxiliary, term) : term;
}

std::string projections(const AttentionTraits& traits) {
  return traits.reads_keys ? "qkv" : traits.reads_queries ? "qv" : "v";
}

SelfAttention::SelfAttention(ParameterInit& init, const std::string& prefix,
                             const ModelConfig& config, int64_t layer, uint32_t dropout_stream)
    : heads(config.heads),
      convolution(init, prefix + "convolution1", config),
      norm(init, prefix + "norm1", config.dim, config.bias),
      attention(make_layer_attention(config, layer)),
      stream_id(dropout_stream),
      turns(config.positions == "rotary" && attention->traits().rotary == Rotary::inputs) {
  const std::string reads = projections(attention->traits());
  const auto parts = static_cast<int64_t>(reads.size());
  qkv = Linear(init, prefix + reads, config.dim, parts * config.dim, kInitStd, config.bias, parts);
  gate = GateLayer(init, prefix, config, *attention);
  add_parameters(init, prefix, *attention);
  if (config.attention_output == "gated") {
    const int64_t dim = config.dim;
    output_gate.weight = init.normal(prefix + "output_gate.weight", {dim, dim}, kInitStd, true, 1);
    if (!attention->traits().softmax_weights)
      output_norm = init.constant(prefix + "output_norm.weight", {dim}, 1, true);
  }
  out = Linear(init, prefix + "out", config.dim, config.dim, config.residual_std(), config.bias, 1);
}

// q, k, v and the gates of x, in the layout and dtype that the attention takes.
AttentionInputs SelfAttention::project(const Var& x, int64_t first) const {
  const DType wide = sum_dtype(x.dtype());
  AttentionInputs in;
  in.heads = heads;
  in.qkv = norm_linear(x, norm, qkv);
  gate.add_gates(in, x, &norm);
  if (!attention->traits().bf16_inputs) in.qkv = cast(in.qkv, wide);
  const bool has_keys = attention->traits().reads_keys;
  if (turns && has_keys) in.qkv = rotated_qk(in.qkv, heads, first);
  if (!attention->traits().packed_qkv) split_parts(in, first);
  return in;
}

void SelfAttention::split_parts(AttentionInputs& in, int64_t first) const {
  const bool has_keys = attention->traits().reads_keys;
  const auto parts = static_cast<int64_t>(projections(attention->traits()).size());
  const Var split = split_heads(in.qkv, parts, heads);
  if (parts > 1) in.q = select(split, 0);
  if (turns && !has_keys) in.q = rotated(in.q, first);
  if (has_keys) in.k = select(split, 1);
  in.v = select(split, parts - 1);
  in.qkv = {};
}

Var SelfAttention::mix(const AttentionInputs& in, const BlockPass& pass, LayerState* state) const {
  if (state != nullptr) return Var(attention->step(*state->attention, in));
  if (pass.inputs != nullptr) {
    AttentionInputs apart = in;
    if (in.qkv.defined()) split_parts(apart, 0);
    pass.inputs->push_back(apart);
  }
  add_auxiliary_loss(*attention, in, pass.mask, pass.auxiliary);
  return attention->forward(in, pass.mask);
}

// residual + dropout(out(y)), with y normalized and gated by x where the model does so.
Var SelfAttention::forward(const Var& residual, const Var& input, const BlockPass& pass,
                           LayerState* state) const {
  const Var x = convolution.forward(input, state == nullptr ? nullptr : &state->convolution,
                                    pass.convolution);
  const AttentionInputs in = project(x, state == nullptr ? 0 : state->position++);
  const Var mixed = cast(mix(in, pass, state), x.dtype()),
            y = state != nullptr   ? Var(mixed.value().reshape(x.shape()))
                : in.qkv.defined() ? mixed
                                   : merge_heads(mixed);
  const Dropout dropout{pass.dropout, stream_id};
  if (!output_gate.weight.defined()) return add_linear(residual, y, out, dropout);
  return add_gated_linear(residual, y, output_norm, norm_linear(x, norm, output_gate), heads, out,
                          dropout);
}

std::vector<Linear*> SelfAttention::linears() {
  std::vector<Linear*> all;
  for (Linear* linear : {&qkv, &gate.down, static_cast<Linear*>(&gate), &output_gate, &out})
    if (linear->weight.defined()) all.push_back(linear);
  return all;
}

}  // namespace linea

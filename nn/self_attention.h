// residual + dropout(out(attention(qkv(norm(conv(x)))))): projections and heads around an Attention,
// which mixes q, k and v; conv is the identity or a causal convolution. Attentions with gates get
// gate(norm(conv(x))), logits, GateSpec::size numbers a head and position.
//
// With attention_output gated, y of the attention becomes rms(y) silu(output_gate(norm(conv(x))))
// before `out`, each head of y normalized alone; of softmax attention, whose y is a mean of values
// already, only gated. (Sun 2023, "Retentive network", section 2.2; Yang 2024, "Gated linear attention")
#pragma once

#include <memory>
#include <string>

#include "nn/attention.h"
#include "nn/causal_convolution.h"
#include "nn/linear.h"

namespace linea {

struct LayerState;
struct ModelConfig;

// The layer of the gates: GateSpec::size logits a head, with a bias in every model, which sets how
// long a head remembers at first. No weight is defined where the attention has no gate.
struct GateLayer : Linear {
  GateLayer() = default;
  // Parameters: PREFIXgate, and with GateSpec::rank PREFIXgate_down, which has no bias.
  GateLayer(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
            const Attention& attention);
  Linear down;  // undefined: a full projection
  int64_t size = 0;
  // Gives the inputs of the attention the gates of x [B,N,dim], or of norm(x), as logits, where it has any.
  void add_gates(AttentionInputs& in, const Var& x, const LayerNorm* norm = nullptr) const;
};

// A pass through the blocks of a model: which rows exist, and, where they are only some of the positions of
// their sequences, which rows convolutions read.
struct BlockPass {
  AttentionMask mask{};
  ConvolutionRows convolution{};
  float dropout = 0;
  // Where they are not null: what attentions add to the loss is added to *auxiliary; *inputs gets what the attention
  // of each layer mixes, q, k and v apart, as far as it reads them; one position of sampling changes *states.
  Var* auxiliary = nullptr;
  std::vector<AttentionInputs>* inputs = nullptr;
  std::vector<LayerState>* states = nullptr;
};

struct SelfAttention {
  // Parameters: PREFIXconvolution1, PREFIXnorm1, PREFIXqkv, those of the gate, PREFIXattention.,
  // PREFIXoutput_gate, PREFIXoutput_norm, PREFIXout.
  SelfAttention(ParameterInit& init, const std::string& prefix, const ModelConfig& config,
                int64_t layer, uint32_t dropout_stream);

  // x [B,N,dim], or with a state one position [B,1,dim], without gradients; residual undefined: the
  // branch alone.
  Var forward(const Var& residual, const Var& x, const BlockPass& pass, LayerState* state) const;

  std::vector<Linear*> linears();  // those that are defined, in the order of their use

  int64_t heads;
  CausalConvolution convolution;
  LayerNorm norm;
  Linear qkv, output_gate, out;  // output_gate undefined: without
  GateLayer gate;
  Var output_norm;  // weight of each head and channel
  std::shared_ptr<Attention> attention;
  uint32_t stream_id;  // of dropout
  bool turns;          // q and k by their positions

 private:
  // x here and below: after the convolution. first: the position of its first row.
  AttentionInputs project(const Var& x, int64_t first) const;
  void split_parts(AttentionInputs& in, int64_t first) const;  // qkv into q, k and v
  // What the attention makes of its inputs, [B,H,N,D], or of qkv [B,N,dim].
  Var mix(const AttentionInputs& in, const BlockPass& pass, LayerState* state) const;
};

inline std::vector<std::string> attention_output_kinds() { return {"plain", "gated"}; }
// The attention of a layer. Errors: one without a causal form where the model is causal; one that
// cannot run twice, where config.recompute or config.reversible asks for it.
std::shared_ptr<Attention> make_layer_attention(const ModelConfig& config, int64_t layer);
// The parts of its inputs that an attention reads, as the name of the layer that makes them: "qkv", "qv" or
// "v".
std::string projections(const AttentionTraits& traits);
// Adds the parameters of an attention to the model's.
void add_parameters(ParameterInit& init, const std::string& prefix, const Attention& attention);
// *auxiliary += what the attention adds to the loss; null: nowhere.
void add_auxiliary_loss(Attention& attention, const AttentionInputs& in, const AttentionMask& mask,
                        Var* auxiliary);

}  // namespace linea

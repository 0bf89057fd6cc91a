// The pre-norm Transformer decoder: tokens in, scores of the next token out, in parallel over a
// whole sequence (training) or one position at a time with a carried state (sampling). Both run the
// same blocks; only the way q, k and v are mixed differs.
//
//   x = E[token] + P[position]
//   x = x + out(attention(split(qkv(norm1(x)))))     x = x + down(gelu(up(norm2(x))))     each
//   layer outputs = head(norm(x))     what they mean, nn/output_head.h says
// Reversible blocks have two streams, both x at first, of which each adds to the other
// (autograd/var.h): x2's attention to x1, then x1's feed-forward layer to x2; the head reads x1 +
// x2. Source: Vaswani 2017; pre-norm and initialization as GPT-2 (Radford 2019).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "nn/attention.h"
#include "nn/output_head.h"

namespace linea {

struct ModelConfig {
  AttentionOptions attention;  // heads and sizes are filled from the fields below
  int64_t layers = 4, heads = 4, dim = 128, ffn = 512;
  int64_t length = 64;     // positions
  int64_t vocab_size = 2;  // tokens that are predicted
  int64_t input_vocab_size =
      2;  // tokens that are read: those, and start tokens or classes after them
  int64_t second_vocab_size = 0;  // above 0: a second token is read at each position, by one bare
                                  // attention: see Transformer::one_attention
  std::string positions = "learned";        // or sinusoidal
  std::string output_head = "categorical";  // or logistics
  bool tie = false;                         // the head is the transposed embedding
  bool bias = true;                         // of the linear layers and norms
  float dropout = 0;
  DType stored =
      DType::f32;  // of activations, and of weights where they are multiplied: f32 or bf16
  DType panels = DType::f32;  // of weights as drawing on a CPU reads them: f32 or bf16
  bool recompute =
      false;  // training keeps only what a block is given, and runs it again in the backward
  bool reversible =
      false;  // blocks of two streams, which the backward undoes: training keeps none of them
  uint64_t seed = 1;
};

struct TransformerBlock {
  NormVars norm1, norm2;
  LinearVars qkv, gate, out, up, down;
  std::shared_ptr<Attention> attention;
};

// The weights of a model: the blocks, and what makes scores of the last one's result.
struct TransformerLayers {
  std::vector<TransformerBlock> blocks;
  NormVars norm;
  LinearVars head;
};

// What sampling carries: one attention state a layer, the position, and the weights as it reads
// them.
struct DecodeState {
  std::vector<std::unique_ptr<AttentionState>> layers;
  int64_t batch = 0, position = 0;  // the position that comes next
  Tensor place;  // i32 [batch]: the position that the device works on, the same of all rows
  TransformerLayers packed;
};

class Transformer {
 public:
  // Errors: dim not divisible by heads, sizes below 1, an unknown attention or kind of positions.
  explicit Transformer(const ModelConfig& config);

  // ids i32 [B,N], N <= length -> the head's outputs [B,N,head().outputs()]. Dropout where
  // `training`; second_inputs: as in ModelConfig::second_vocab_size.
  Var forward(const Tensor& ids, bool training, const Tensor& second_inputs = Tensor(),
              Var* auxiliary = nullptr) const;

  // The recurrent form: ids i32 [B] of the next position -> outputs [B,head().outputs()], by the
  // weights as they were at the start. Error: position past the length.
  DecodeState start(int64_t batch) const;
  DecodeState start(int64_t batch,
                    const DecodeState& beside) const;  // by the weights of another, which it shares
  Tensor step(DecodeState& state, const Tensor& ids) const;
  // The same in two: the position is counted, and its place told to the device; then the device
  // works on it. Where the device itself counts the place on, the host counts alone. Where
  // is_step_capturable(), that work is the same at every position, so that it may be recorded.
  void begin_position(DecodeState& state) const;
  void count_position(DecodeState& state) const;
  Tensor work(DecodeState& state, const Tensor& ids) const;
  bool is_step_capturable() const;

  // What attentions do besides, once a training step: before it (0-based, of `steps`), and after
  // it; skip_step where its update was not made. Between them forward(…, true) adds to `auxiliary`,
  // where given, what they want added to the loss.
  void before_step(int64_t step, int64_t steps);
  void after_step();
  void skip_step();
  bool is_capturable() const;  // of all attentions
  // Numbers of the attentions worth a record, the mean over layers.
  std::vector<std::pair<std::string, double>> statistics() const;

  const ModelConfig& config() const { return config_; }
  const OutputHead& output_head() const { return *head_; }
  const Parameters& parameters() const { return parameters_; }
  // Saved with the parameters, but not trained by gradients.
  std::vector<Buffer> buffers() const;
  void buffers_changed();
  // For weights that come from a model with softmax attention.
  void scale_queries_from_softmax();
  // Weights of matrices that a token passes: 6 of its FLOPs each in training.
  int64_t matrix_weights() const;

 private:
  using Linear = LinearVars;
  using Norm = NormVars;
  using Block = TransformerBlock;
  // How a layer mixes positions.
  struct Mixer {
    // q, k, v [B,H,N,D] and the gates -> [B,H,N,D]
    std::function<Var(size_t layer, const AttentionInputs& in)> heads;
    // Where defined, the same from rows [B,N,dim] before their norm -> [B,N,dim]; undefined: by
    // `heads`.
    std::function<Var(size_t layer, const Var& x)> rows{};
  };

  Linear make_linear(const std::string& name, int64_t in, int64_t out, double stddev);
  Linear make_gate(const std::string& name, const Attention& attention);
  Norm make_norm(const std::string& name);
  static Var apply(const Linear& linear, const Var& x);
  Var run(const TransformerLayers& layers, const Var& embedded, const Mixer& mix,
          float dropout_rate, bool recompute = false) const;
  Var run_block(const Block& block, size_t layer, const Var& x, const Mixer& mix,
                float dropout_rate) const;
  ReversibleLayer reversible_block(const Block& block, size_t layer, const Mixer& mix,
                                   float dropout_rate) const;
  // The attention's branch of x, and `residual` where it is defined.
  Var attend(const Block& block, size_t layer, const Var& residual, const Var& x, const Mixer& mix,
             float rate) const;
  Linear tied_head() const;
  void pack(TransformerLayers& layers) const;
  // Weights cast to the type in which they are multiplied, by one launch, where they are of
  // another.
  static void store(std::vector<Var*> parts, DType dtype);
  static Block stored(Block block, DType dtype);
  Var embed(const Tensor& ids, const Var& positions) const;
  void make_blocks();
  Linear make_last_linear();
  void make_attention_of(Block& block, const std::string& name, int64_t layer);
  void make_one_attention();
  Var one_attention(const Tensor& ids, const Tensor& second_inputs, const Mixer& mix) const;
  static Var sigmoid_gates(const Var& x, int64_t heads);

  ModelConfig config_;
  std::unique_ptr<const OutputHead> head_;
  Parameters parameters_;
  Var token_embedding_, second_embedding_, one_hot_, positions_;
  Linear second_qk_;
  TransformerLayers layers_;
};

// i32 tensor of tokens. Error: ErrorKind::usage where one is outside [0, vocabulary).
Tensor token_tensor(const std::vector<int32_t>& tokens, const Shape& shape, int64_t vocab_size);

}  // namespace linea

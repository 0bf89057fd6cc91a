// The interface of a model for training, evaluation and sampling: tokens in, outputs of the next
// token out. nn/transformer.h is the model of sequences, nn/retrieval_model.h that of the retrieval
// task.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention_list.h"
#include "nn/causal_convolution.h"
#include "nn/output_head.h"
#include "nn/parameter.h"

namespace linea {

// The general settings of a model that a user gives (train/config_settings.cpp).
struct ModelSettings {
  int64_t layers = 4, heads = 4, dim = 128, ffn = 512;
  std::string positions = "learned";  // one of position_kinds()
  // Causal convolutions (nn/causal_convolution.h) of the inputs of each layer's branches.
  std::string layer_convolution = "none";
  // Where the class of an image is read: at the first position alone, or at every one.
  std::string class_embedding = "first";
  std::string attention_output = "plain";   // or gated (nn/self_attention.h)
  std::string output_head = "categorical";  // or logistics
  std::string mask = "auto";  // or causal: whether rows may read what follows (model_config)
  bool skip_blank =
      false;               // blocks compute the positions of images that are not blank (nn/blank.h)
  bool tie = false;        // the output layer is the transposed token embedding
  bool bias = true;        // of the linear layers and norms
  bool recompute = false;  // training saves a block's input alone and runs the block twice
  bool reversible = false;  // blocks of two streams, of which training saves nothing
  double dropout = 0;
  int64_t seed = 1;  // never negative
};

struct ModelConfig : ModelSettings {
  // Names and settings; the layers take them in turn. attention_of() has the sizes.
  std::vector<AttentionOptions> attentions = {{}};
  int64_t length = 64;     // positions
  int64_t vocab_size = 2;  // tokens that are predicted
  // Tokens that are read: the predicted ones, then start tokens or classes.
  int64_t input_vocab_size = 2;
  bool causal = true;             // a row reads no later one
  int64_t second_vocab_size = 0;  // above 0: a RetrievalModel, which reads a second stream
  int64_t image_width = 0, image_channels = 0;  // of an image's rows; 0 without images
  int64_t classes = 0;                          // tokens after the predicted ones; 0: none
  int32_t no_class = -1;  // the token in place of a class that training drops; -1: it drops none
  DType stored = DType::f32;  // of activations and of weights in products: f32 or bf16
  DType panels = DType::f32;  // of weights in panels, for sampling on a CPU: f32 or bf16

  // The attention of a layer (0-based), with the sizes of this model.
  AttentionOptions attention_of(int64_t layer) const;
  // Initial standard deviation of layers that write to the residual stream (Radford 2019).
  double residual_std() const;
};

class Transformer;

// What a model reads: tokens i32 [B,N], N <= length; of a RetrievalModel, its second stream [B,N];
// and how many tokens of each sequence exist, i32 [B], where not all do.
struct ModelInputs {
  ModelInputs(Tensor tokens, Tensor second = {}, Tensor lengths = {})  // NOLINT: tokens alone do
      : ids(std::move(tokens)), second_ids(std::move(second)), valid(std::move(lengths)) {}
  Tensor ids, second_ids, valid;
};

// The running state of a layer.
struct LayerState {
  std::unique_ptr<AttentionState> attention;
  ConvolutionState convolution, feed_forward;  // of the inputs of the attention's and its branch
  int64_t position = 0;                        // the next one, counted where q and k are turned
  size_t rows_bytes() const { return convolution.bytes() + feed_forward.bytes(); }
  size_t bytes() const { return attention->bytes() + rows_bytes(); }
};

// The running state of sampling.
struct DecodeState {
  std::vector<LayerState> layers;
  Tensor classes;          // i32 [batch], undefined without their embedding
  Tensor hidden;           // [batch,dim] of the last position, with skip_blank
  int64_t position = 0;    // the next position
  Tensor device_position;  // i32 [batch], the same number in all rows but with skip_blank
  std::shared_ptr<const Transformer> weights;  // as they were at the start, cast or packed
  // Bytes of per-sequence state.
  size_t bytes() const;
};

class Model {
 public:
  virtual ~Model() = default;

  // -> outputs [B,N,output_head().outputs()]. Dropout where `training`; the terms that attentions
  // add to the loss are added to *auxiliary, unless that is null.
  virtual Var forward(const ModelInputs& in, bool training, Var* auxiliary = nullptr) const = 0;

  // What the attention of each layer mixes, without dropout and gradients, q, k and v [B,H,N,D] apart,
  // with skip_blank of the positions that are not blank;
  // empty: a model of pairs. Error: ErrorKind::usage, activations in bf16.
  virtual std::vector<AttentionInputs> attention_inputs(const ModelInputs&) const { return {}; }

  // The recurrent form: ids i32 [B] of the next position -> outputs [B,output_head().outputs()], by
  // the weights as they were at the start. Errors: a position past the length, a model that does
  // not sample: of pairs, or not causal.
  virtual DecodeState start(int64_t batch) const;
  Tensor step(DecodeState& state, const Tensor& ids) const;
  // A step in two: begin_position counts the position and writes it to the device, decode computes.
  // Where the device counts its position itself (ops::Sampled), count_position counts on the host
  // alone. decode() is the same work at each position where is_step_capturable().
  void begin_position(DecodeState& state) const;
  void count_position(DecodeState& state) const;
  virtual Tensor decode(DecodeState&, const Tensor&) const { return {}; }  // start() refuses
  // With skip_blank a sequence steps from one position that is not blank to the next, at positions of
  // its own; sample_skipping() (nn/blank_sampling.cpp) is made of these.
  // Outputs [K,...] of blank positions i32 [K] of some sequences i32 [K], after what they have read.
  virtual Tensor decode_blank(const DecodeState&, const Tensor&, const Tensor&) const { return {}; }
  // Positions from `first` to before `end` of a sequence are blank: later ones read nothing there.
  void skip(DecodeState& state, int64_t sequence, int64_t first, int64_t end) const;
  bool is_step_capturable() const;
  // Whether anything but the causal mask tells the order of the tokens.
  bool knows_order() const;
  // Whether steps may pass the model's length: it knows no positions, and its states do not grow.
  bool is_unbounded() const;

  // The attentions' work around a training step (0-based): before it, after it, or instead of the
  // latter where the update was skipped. What is annealed reaches its end after `steps`.
  void before_step(int64_t step, int64_t steps);
  void after_step();
  void skip_step();
  bool is_capturable() const;
  // The attentions' statistics, the mean over the layers that have them.
  std::vector<std::pair<std::string, double>> statistics() const;

  const ModelConfig& config() const { return config_; }
  const OutputHead& output_head() const { return head_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<std::shared_ptr<Attention>>& attentions() const { return attentions_; }
  // Saved with the parameters, but not trained by gradients.
  std::vector<Buffer> buffers() const;
  void buffers_changed();
  // For weights of a layer (0-based) that come from one with softmax attention.
  virtual void scale_queries_from_softmax(int64_t layer) = 0;
  // Weights of the matrices that a token passes: training takes 6 FLOPs for each.
  virtual int64_t matrix_weights() const = 0;

 protected:
  // Errors: sizes below 1, dim not divisible by heads, settings that exclude each other.
  explicit Model(const ModelConfig& config);
  // Scales the rows of q, the first `dim` of a layer that makes q and more.
  void scale_queries(const std::vector<Var>& parameters, double factor) const;

  ModelConfig config_;
  OutputHead head_;
  Parameters parameters_;
  std::vector<std::shared_ptr<Attention>> attentions_;  // one a layer
};

// A Transformer, or a RetrievalModel where config.second_vocab_size is above 0.
std::unique_ptr<Model> make_model(const ModelConfig& config);

// i32 tensor of tokens. Error: ErrorKind::usage where one is outside [0, vocab_size).
Tensor token_tensor(const std::vector<int32_t>& tokens, const Shape& shape, int64_t vocab_size);

}  // namespace linea

// Attention: mixes q, k, v; projections and heads live once, in nn/self_attention.h. One class
// holds all forms of one mechanism, so that a test can demand that they agree:
//   quadratic  the definition, N x N scores on the tape: the oracle
//   forward    what trains: chunked for the linear family
//   step       what samples: one position, a carried state
//
// Adding one: a file in nn/attention/ that defines its AttentionEntry, a line in the list of
// nn/attention/builtin.cpp, and a test. See CONTRIBUTING.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/attention_inputs.h"
#include "base/settings.h"
#include "nn/parameter.h"
#include "tensor/ops.h"

namespace linea {

struct AttentionOptions {
  std::string name = "linear";
  Settings settings{};  // its own (AttentionEntry::settings); what is missing has its default
  int64_t heads = 1, key_size = 1, value_size = 1;
  int64_t segment = 0, chunk = 0;  // 0: chosen by the implementation
  int64_t length = 0;              // positions of the model, 0: not known
  bool rotary = false;             // rows are turned by their positions (Rotary::features)
  uint64_t seed = 1;
  int64_t layer = 0;  // separates the random numbers of the layers
  int64_t turn = 0;   // layers before this one that have the same item of a list
  int64_t image_width = 0, image_channels = 0;  // of the positions; 0: no image
  DType dtype = DType::f32;                     // of its parameters and buffers
};

// A tensor that belongs to a model but is not trained by gradients: random projections, running
// means. Changed in place.
using Buffer = NamedTensor;

// Writes numbers, rounded to float, into a tensor of f32 or f64: both then hold the same.
void write_values(const std::vector<double>& values, const Tensor& into);

// Whether an attention takes rows that are turned by their positions (autograd/rotary.h): none, q and k
// that the layer turns, or it turns its features itself (AttentionOptions::rotary).
enum class Rotary : uint8_t { none, inputs, features };

// What is true of a mechanism under its settings; each fact answers one question of its callers.
struct AttentionTraits {
  bool causal_only = false;  // AttentionMask::causal must be true
  std::string not_causal{};  // why there is no causal form, nor a recurrent one; empty: there is
  // Else k, or q and k, need not be given, and have no gradient: rows of q are also keys, or a position
  // has keys of its own.
  bool reads_keys = true, reads_queries = true;
  bool packed_qkv = false;       // takes AttentionInputs::qkv
  bool takes_parts = false;      // of sequences (autograd/sequence_part.h)
  bool bf16_inputs = false;      // takes q, k and v in bf16; otherwise they are cast to f32
  bool softmax_weights = false;  // its weights are softmax(s q.k) over keys that q and k may choose
  bool denominators = true;      // y is divided by the sum of its weights
  bool weighs_values = true;     // y_i = sum_j a_ij v_j, and no a_ij follows from v
  bool signed_weights = false;   // of both signs, which nearly cancel in some rows of N(0, 1)
  bool any_order = false;        // y_i is the same for any order of the keys before i
  bool heads_differ = false;     // by constants; parameters and buffers of heads are seen anyway
  bool straight_through = false;  // dk is the gradient of a substitute for k
  bool decides = false;           // chooses by q and k (autograd/decisions.h)
  bool recomputable = true;       // forward may run again in the backward, and gives the same
  // The device's work for a training step, or for a step of the recurrent form, is the same each
  // time and can be captured: the host computes nothing, and buffers and states keep their memory.
  bool training_capturable = true, step_capturable = true;
  bool any_length = true;  // the recurrent form is right past AttentionOptions::length
  Rotary rotary = Rotary::none;
  double state_growth = 0;   // keys and values that a position adds to the state
  double saved_scalars = 8;  // of a position and head, apart from inputs and output: a bound
  // The factor of q when weights trained with softmax are loaded: 1 / sqrt(D) where the attention
  // has no such scale itself.
  double scale_from_softmax = 1;
  std::string details{};  // what aliases and settings of 0 come to, for `linea info`
};

class Attention {
 public:
  explicit Attention(AttentionOptions options = {}, AttentionTraits traits = {})
      : options_(std::move(options)), traits_(std::move(traits)) {}
  virtual ~Attention() = default;
  const AttentionTraits& traits() const { return traits_; }
  const GateSpec& gate() const { return gate_; }
  // Error: ErrorKind::usage, a causal form where there is none.
  void require_form(bool causal) const;

  // -> [B,H,N,M], or [B,N,H D] of qkv. Errors: shapes that do not go together, a mask that the
  // traits exclude.
  virtual Var forward(const AttentionInputs& in, const AttentionMask& mask) const = 0;
  virtual Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const = 0;
  // Causal only: one position, N = 1, after those that the state has seen. dtype: of q, k and v. Those that are not
  // overridden refuse.
  virtual std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const;
  virtual Tensor step(AttentionState& state, const AttentionInputs& in) const;
  // Counted by the recurrent form where its state does not grow, whatever form runs; features and
  // terms linear in F, D or M are not counted.
  virtual AttentionFlops flops(int64_t length) const = 0;
  // The gradient of the gates that let the state decay, [B,H,N], given that of y; slow, and precise
  // at any gate from 0 to 1. Undefined without such gates.
  virtual Tensor decay_gradient(const AttentionInputs& in, const Tensor& dy) const {
    return (void)in, (void)dy, Tensor();
  }

  // Trained by gradients; and saved, but not trained. Names without that of the layer.
  virtual Parameters parameters() const { return {}; }
  virtual std::vector<Buffer> buffers() const { return {}; }
  virtual void buffers_changed() {}  // call it after writing into them

  // Work around a training step, of an attention that is not trained by gradients alone. Before the step (0-based, of
  // `steps`):
  virtual void before_step(int64_t step, int64_t steps) { (void)step, (void)steps; }
  // A term to add to the loss, of the keys that the mask leaves; undefined: none.
  virtual Var auxiliary_loss(const AttentionInputs& in, const AttentionMask& mask) {
    return (void)in, (void)mask, Var();
  }
  // After the step, or instead of that where the update is skipped.
  virtual void after_step() {}
  virtual void skip_step() {}
  virtual std::vector<std::pair<std::string, double>> statistics() const { return {}; }

 protected:
  const AttentionOptions options_;
  AttentionTraits traits_;
  GateSpec gate_{};
};

// Gives gates that are alike everywhere, for positions {B,H,N}: `value`, or the initial biases as logits where the
// values of gates are not numbers from 0 to 1. Nothing where the attention has none.
void set_constant_gates(AttentionInputs& in, const Attention& attention, const Shape& positions,
                        double value, DType dtype, bool requires_grad = false);

// A parameter or buffer of an attention that `linea attend` reads by its name.
struct InputTensor {
  std::string name;
  // A letter an axis: H heads, D the size of a key, another the size that `setting` gives; or "1",
  // the number that `setting` gives.
  std::string axes;
  std::string setting;  // empty: as the attention has it by its settings
  bool required = false;
  std::string note{};  // for help, where it is not required
};

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionOptions&)>;

// One mechanism, as `--attention` names it.
struct AttentionEntry {
  std::string name;
  std::string summary;  // one line
  std::string source;   // the paper
  Declarations settings;
  AttentionFactory make;                  // gets options with all settings that apply
  std::vector<Settings> variants = {{}};  // that the tests and `verify` check
  bool cpu_only = false;                  // no kernels for CUDA devices yet
  std::vector<InputTensor> tensors{};     // that `linea attend` may be given

  std::vector<AttentionOptions> variant_options() const;
};

// Adds a mechanism to those of nn/attention/. Error: a name that is taken.
void register_attention(AttentionEntry entry);
// All mechanisms, by name.
const std::vector<AttentionEntry>& attentions();
std::vector<std::string> attention_names();
// Error: ErrorKind::usage naming the attentions that exist.
const AttentionEntry& find_attention(const std::string& name);

// All settings of `options`, those not given at their defaults. Error: those of `complete`.
Settings complete_settings(const AttentionOptions& options);
// Errors: those of complete_settings; ErrorKind::usage, one for the CPU only on another device.
std::unique_ptr<Attention> make_attention(AttentionOptions options);
// One of the smallest sizes, for its traits: whole numbers, which may not fit those, have their
// defaults.
std::unique_ptr<Attention> make_smallest(AttentionOptions options);
// Traits that depend on no sizes.
AttentionTraits traits_of(AttentionOptions options);
// "linear --feature elu", the flags that ask for it.
std::string label_of(const AttentionOptions& options);

}  // namespace linea

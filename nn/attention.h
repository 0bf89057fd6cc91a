// Attention: mixes q, k, v; projections and heads live once, in the Transformer above. One class
// holds all forms of one mechanism, so that a test can demand that they agree:
//   quadratic  the definition, N x N scores on the tape: the oracle
//   forward    what trains: chunked for the linear family
//   step       what samples: one position, a carried state
//
// Adding one: a file in nn/attention/ that defines its AttentionEntry, a line in
// nn/attention.cpp, and a test. See docs/design.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/attention_inputs.h"
#include "nn/parameter.h"
#include "tensor/ops.h"
#include "tensor/settings.h"

namespace linea {

struct AttentionOptions {
  std::string name = "linear";
  Settings settings{};  // its own (AttentionEntry::settings); what is missing has its default
  int64_t heads = 1, key_size = 1, value_size = 1;
  int64_t segment = 0, chunk = 0;  // 0: chosen by the implementation
  int64_t length = 0;              // positions of the model, 0: not known
  uint64_t seed = 1;
  int64_t layer = 0;         // separates the random numbers of the layers
  DType dtype = DType::f32;  // of its parameters and buffers
};

// A tensor that belongs to a model but is not trained by gradients: random projections, running
// means. Changed in place.
using Buffer = NamedTensor;

// Writes numbers, rounded to float, into a tensor of f32 or f64: both then hold the same.
void write_values(const std::vector<double>& values, const Tensor& into);

struct RecurrentFlops {
  double forward, training;  // training: forward and backward
};

class Attention {
 public:
  virtual ~Attention() = default;
  // -> [B,H,N,M], or [B,N,H D] of qkv. Errors: shapes that do not go together, `causal` false where
  // there is only the causal form.
  virtual Var forward(const AttentionInputs& in, const AttentionMask& mask) const = 0;
  virtual Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const = 0;
  // Causal only: one position, N = 1, after those that the state has seen. dtype: of q, k and v.
  virtual std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const = 0;
  virtual Tensor step(AttentionState& state, const AttentionInputs& in) const = 0;
  // FLOPs of a token and head with a state of fixed size, counted by the recurrent form, whatever
  // form runs; features and terms linear in F or M are not counted. Undefined: the state grows.
  virtual std::optional<RecurrentFlops> recurrent_flops() const { return std::nullopt; }
  // Whether the state grows with each position; a step of such an attention cannot be captured.
  virtual bool state_grows() const { return false; }

  virtual bool takes_packed() const { return false; }  // AttentionInputs::qkv
  virtual int64_t gates() const { return 0; }          // of each head, in AttentionInputs::gate
  bool gated() const { return gates() > 0; }
  virtual const char* gate_name() const { return "gate"; }
  virtual bool takes_bf16() const { return false; }  // q, k and v; otherwise they are cast to f32
  // dk is the gradient of a substitute for k.
  virtual bool straight_through() const { return false; }
  // The gradient of the gates that let the state decay, [B,H,N], given that of y; slow, and precise
  // at any gate from 0 to 1. Undefined without such gates.
  virtual Tensor decay_gradient(const AttentionInputs& in, const Tensor& dy) const {
    return (void)in, (void)dy, Tensor();
  }
  virtual bool causal_only() const { return false; }
  // Weights of both signs, which nearly cancel in some rows of N(0, 1).
  virtual bool has_signed_weights() const { return false; }
  // The initial bias of a gate of head h, before the logistic function.
  virtual double initial_gate_bias(int64_t, int64_t) const { return 0; }
  // The factor of q when weights trained with softmax are loaded: 1 / sqrt(D) where the attention
  // has no such scale itself.
  virtual double scale_from_softmax() const { return 1; }

  // Trained by gradients; and saved, but not trained. Names without that of the layer.
  virtual Parameters parameters() const { return {}; }
  virtual std::vector<Buffer> buffers() const { return {}; }
  virtual void buffers_changed() {}  // call it after writing into them

  // Hooks of a training step: before it (0-based, of `steps`); a term to add to the loss, given the
  // keys [B,H,N,D] (undefined: none); after it, or instead of that where the update is skipped; and
  // statistics to record (name, value).
  virtual void before_step(int64_t step, int64_t steps) { (void)step, (void)steps; }
  virtual Var auxiliary_loss(const Var& k) { return (void)k, Var(); }
  virtual void after_step() {}
  virtual void skip_step() {}
  virtual std::vector<std::pair<std::string, double>> statistics() const { return {}; }
  // Whether the device's work for a training step is the same each time and can be captured:
  // forward and auxiliary_loss do nothing on the host, and buffers keep their memory.
  virtual bool is_capturable() const { return true; }
};

// AttentionInputs::gate of an attention with gates, given the axes of positions, [B,H,N].
inline Shape gate_shape(const Attention& attention, std::vector<int64_t> positions) {
  if (attention.gates() > 1) positions.push_back(attention.gates());
  return Shape(positions);
}

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionOptions&)>;

// One mechanism, as `--attention` names it.
struct AttentionEntry {
  std::string name;
  std::string summary;  // one line
  std::string source;   // the paper
  Declarations settings;
  AttentionFactory make;                  // gets options with all settings that apply
  std::vector<Settings> variants = {{}};  // that the tests and `verify` check
  // Its weights are softmax(q.k / sqrt(D)) exactly, so that others can take over trained queries
  // (Attention::scale_from_softmax).
  bool is_softmax = false;
  // Its forward may run again in the backward; false where it counts what it sees.
  bool can_recompute = true;

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
std::unique_ptr<Attention> make_attention(AttentionOptions options);
// "linear --feature elu", the flags that ask for it.
std::string label_of(const AttentionOptions& options);

}  // namespace linea

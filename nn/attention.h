// Attention: mixes q, k, v; projections and heads live once, in the Transformer above. One class holds
// all forms of one mechanism, so that a test can demand that they agree:
//   quadratic  the definition, N x N scores on the tape: the oracle
//   forward    what trains: chunked for the linear family
//   step       what samples: one position, a carried state
//
// Adding one: a file in nn/attention/ that ends in a Registration, and a test. See docs/design.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "nn/parameter.h"

namespace linea {

struct AttentionOptions {
  std::string attention = "linear";
  std::string feature = "elu";  // of linear
  int64_t nu = 1;               // of dpfp
  int64_t heads = 1, key_size = 1, value_size = 1;
  int64_t segment = 0, chunk = 0;  // 0: chosen by the engine
};

struct AttentionMask {
  bool causal = true;
  Tensor valid;  // i32 [B], how many keys of each sequence exist; undefined: all
};

// What the recurrent form carries from position to position.
class AttentionState {
 public:
  virtual ~AttentionState() = default;
  virtual size_t bytes() const = 0;
};

class Attention {
 public:
  virtual ~Attention() = default;
  // q, k [B,H,N,D], v [B,H,N,M] -> [B,H,N,M].
  virtual Var forward(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const = 0;
  virtual Var quadratic(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const = 0;
  // Causal only. q, k [B,H,D], v [B,H,M] -> [B,H,M].
  virtual std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const = 0;
  virtual Tensor step(AttentionState& state, const Tensor& q, const Tensor& k, const Tensor& v) const = 0;
};

using AttentionFactory = std::function<std::unique_ptr<Attention>(const AttentionOptions&)>;

// One mechanism as `--attention` names it, and the settings of it that tests and `verify` go through.
struct AttentionEntry {
  std::string name;
  std::vector<AttentionOptions> variants;
  AttentionFactory make;
};

class Registration {
 public:
  explicit Registration(AttentionEntry entry);
};

// All that is registered, by name.
const std::vector<AttentionEntry>& attentions();
// Error: ErrorKind::usage naming the attentions that exist.
std::unique_ptr<Attention> make_attention(const AttentionOptions& options);
// "linear --feature elu", as a user would ask for it.
std::string label_of(const AttentionOptions& options);

}  // namespace linea

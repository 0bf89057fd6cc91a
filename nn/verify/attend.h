// One attention on given tensors, in the form that is asked for, with gradients.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/decisions.h"
#include "nn/attention.h"

namespace linea::attend {

// q, k [B,H,N,D], v, dy [B,H,N,M], the parts of the gates in one tensor [B,H,N,...]; undefined: none,
// and without dy no gradients. `tensors` replace those of the attention that have their names
// (AttentionEntry::tensors), `decisions`, where there are some, what it would choose.
struct Inputs {
  Tensor q, k, v, dy, gate;
  std::vector<NamedTensor> tensors{};
  Decisions decisions{};
};

enum class Form { quadratic, chunked, recurrent };  // the latter causal and without gradients
// Error: ErrorKind::usage, another name.
Form parse_form(const std::string& name);

// The name of the n-th decision in a file.
std::string decision_name(size_t n);

// The parameter or buffer of this name; undefined: the attention has none.
Tensor find_tensor(const Attention& attention, const std::string& name);
// The attention of the inputs' sizes and dtype, with their numbers.
std::unique_ptr<Attention> attention_for(const Inputs& in, AttentionOptions options);
// The values [B,H,N,N] of queries [B,H,N,D] whose output is the matrix of weights: the identity.
Tensor identity_values(const Tensor& q);
// y [B,H,1,M] of a position, and the state after it.
using VisitStep = std::function<void(int64_t t, const Tensor& y, const AttentionState& state)>;
// The recurrent form, one position after the other.
void each_step(const Attention& attention, const Inputs& in, const VisitStep& visit);
// y; given dy, dq, dk, dv, the gradients of the parts of the gates as "d" with their names, and those of
// parameters; and what was decided (not by the recurrent form). A part of one number a head and
// position is [B,H,N].
std::vector<NamedTensor> compute(const Attention& attention, const Inputs& in, Form form,
                                 bool causal);

}  // namespace linea::attend

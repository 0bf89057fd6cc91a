// What an attention makes of a short sequence, step by step, as text: for `linea attend --show` and
// the lessons. All of it is computed in f64.
#pragma once

#include <string>
#include <vector>

#include "nn/verify/attend.h"

namespace linea::attend {

inline constexpr int64_t kMaxShown = 64;  // positions

// What can be shown:
//   features   phi(q), phi(k) [N,F]; logs as numbers
//   weights    a_ij of y_i = sum_j a_ij v_j, the output for v = identity; before them the products
//              phi(q_i).phi(k_j), where there are features
//   state      of the recurrent form after the last position: S [F,M] and z [F], or keys and values
//   steps      the form position by position: the states (recurrent), the states before the chunks
//              and what each row gets from its state and from its chunk (chunked; rules that add
//              without gates), or the rows of weights (quadratic)
std::vector<std::string> shown_names();

// `options` as attention_for takes them. Errors: ErrorKind::usage, more than kMaxShown positions,
// or what the attention does not have.
std::string show(const AttentionOptions& options, const Inputs& in, Form form, bool causal,
                 const std::vector<std::string>& names);

// What a state in f64 holds: S [B,H,F,M] of `values` = M and, where there is one, z [B,H,F]; or keys
// and values.
std::vector<NamedTensor> parts_of(const AttentionState& state, int64_t values);

// A value within 5e-7 of a whole number as that number, any other with six decimals.
std::string number_text(double x);
// Rows of numbers in columns, after their names, each line after `indent` blanks. Matrices of
// several sequences and heads are named x[b,h].
std::string to_text(const std::vector<NamedTensor>& tensors, size_t indent = 0);

}  // namespace linea::attend

// Softmax attention over a pattern of keys, for `sparse` and for the patterns that have names of their own.
#pragma once

#include <memory>
#include <string>

#include "nn/attention.h"

namespace linea {

// The expressions (nn/attention/sparse_pattern.h) of an attention. An empty causal one: there is no causal
// form, because `not_causal`.
struct SparseExpressions {
  std::string bidirectional, causal;
  std::string not_causal{};
  bool by_head = false;  // alternatives are those of heads in turn, not of layers
};
// Errors: those of parse_pattern.
std::unique_ptr<Attention> make_sparse(const AttentionOptions& options, int64_t block,
                                       const SparseExpressions& expressions);

}  // namespace linea

// The conformance suite of attentions, with measured numbers: forms agree, gradients are correct,
// nothing leaks from the future, from padding or from other sequences, and memory has the claimed
// size. The tests and `linea verify` run these checks over all registered attentions.
#pragma once

#include <string>
#include <vector>

#include "nn/attention.h"

namespace linea {

struct Check {
  std::string name;
  double measured = 0;
  double bound = 0;
  bool passed = false;  // measured <= bound, which a NaN is not
  std::string detail;   // where it was measured, or the error that ended the check
};

struct ConformanceOptions {
  bool quick = false;                      // fewer lengths, and nothing at 16384 positions
  std::string only;                        // the checks whose names begin so; empty: all
  AttentionFactory make = make_attention;  // of one that need not be registered
  bool saved_inputs = false;               // draws q, k and v as numbers of saved_dtype()
};

// `variant` says which attention and its settings; sizes, segment and chunk are filled in here.
// Uses one and two threads, and leaves the number as it was.
std::vector<Check> check_attention(const AttentionOptions& variant,
                                   const ConformanceOptions& options);

}  // namespace linea

// An attention under test and its checks: each measures one number per claim of
// nn/verify/conformance.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/verify/conformance.h"
#include "nn/verify/conformance_tools.h"

namespace linea::conformance {

struct Subject {
  AttentionFactory make;
  AttentionOptions variant;
  ConformanceOptions options;

  std::unique_ptr<Attention> make_attention(const Sizes& sizes, DType dtype, int64_t segment = 0,
                                            int64_t chunk = 0) const {
    AttentionOptions filled = variant;
    filled.dtype = dtype;
    filled.heads = sizes.heads;
    filled.key_size = sizes.key_size;
    filled.value_size = sizes.value_size;
    filled.segment = segment;
    filled.chunk = chunk;
    return make(filled);
  }

  // The default sizes of segments and chunks, and small ones.
  template <typename Body>
  void with_cuts(const Sizes& sizes, DType dtype, const Body& body) const {
    body(*make_attention(sizes, dtype), std::string("own segments"));
    body(*make_attention(sizes, dtype, 40, 16), std::string("segments of 40"));
  }

  std::vector<bool> directions() const {
    return make_attention({}, DType::f32)->causal_only() ? std::vector<bool>{true}
                                                         : std::vector<bool>{true, false};
  }

  // State and blocks of scores grow with the sequence.
  bool state_grows() const { return make_attention({}, DType::f32)->state_grows(); }
  // Random features or codes of each head: heads are not interchangeable.
  bool heads_differ() const {
    const std::unique_ptr<Attention> attention = make_attention({}, DType::f32);
    return !attention->parameters().empty() || !attention->buffers().empty();
  }
  // Weights that nearly cancel in some rows of N(0,1) dominate every error; at a standard deviation
  // of 0.5 they do not.
  bool signed_features() const { return make_attention({}, DType::f32)->has_signed_weights(); }
  double stddev() const { return signed_features() ? 0.5 : 1.0; }
};

// nn/verify/conformance_forms.cpp: the three forms agree, in float too; state and memory have the
// claimed sizes.
std::vector<Worst> forms(const Subject& subject);
std::vector<Worst> single_precision(const Subject& subject, int64_t length);
std::vector<Worst> recurrent(const Subject& subject, DType dtype);
std::vector<Worst> large_inputs(const Subject& subject);
std::vector<Worst> state_growth(const Subject& subject);
std::vector<Worst> memory(const Subject& subject);

// nn/verify/conformance_gradients.cpp: gradients are true.
std::vector<Worst> differences(const Subject& subject);
std::vector<Worst> long_gradient(const Subject& subject);

// nn/verify/conformance_leaks.cpp: nothing comes from the future, padding, other sequences or
// another run.
std::vector<Worst> causality(const Subject& subject);
std::vector<Worst> padding(const Subject& subject);
std::vector<Worst> padded_values(const Subject& subject);
std::vector<Worst> independence(const Subject& subject);
std::vector<Worst> determinism(const Subject& subject);

}  // namespace linea::conformance

// An attention under test and its checks: each measures one number per claim of
// nn/verify/conformance.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
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
    filled.length = sizes.length;
    filled.image_width = 10;  // rows of 30 tokens
    filled.image_channels = 3;
    return make(filled);
  }
  // One that answers questions about its kind.
  std::shared_ptr<const Attention> kind = make_attention({}, DType::f32);

  // The attention with the default sizes of segments and chunks, and with small ones.
  std::vector<std::pair<std::unique_ptr<Attention>, std::string>> cuts(const Sizes& sizes,
                                                                       DType dtype) const {
    std::vector<std::pair<std::unique_ptr<Attention>, std::string>> result;
    result.emplace_back(make_attention(sizes, dtype), ", own segments");
    result.emplace_back(make_attention(sizes, dtype, 40, 16), ", segments of 40");
    return result;
  }

  // The masks that the attention takes.
  std::vector<std::pair<AttentionMask, std::string>> masks(const Tensor& valid = {}) const {
    std::vector<std::pair<AttentionMask, std::string>> result;
    if (is_causal()) result.push_back({{true, valid}, "causal"});
    if (!kind->traits().causal_only) result.push_back({{false, valid}, "not causal"});
    return result;
  }
  // Whether there is a causal form; the mask of checks that take one.
  bool is_causal() const { return kind->traits().not_causal.empty(); }
  AttentionMask mask() const { return {is_causal(), {}}; }

  // Random features, codes or constants of each head: heads are not interchangeable.
  bool heads_differ() const {
    return kind->traits().heads_differ || !kind->parameters().empty() || !kind->buffers().empty();
  }
  // Weights that nearly cancel in some rows of N(0,1) dominate every error; at a standard deviation
  // of 0.5 they do not.
  double stddev() const { return kind->traits().signed_weights ? 0.5 : 1.0; }
};

// nn/verify/conformance_forms.cpp: the three forms agree, in float too; state and memory have the
// claimed sizes.
std::vector<Worst> forms(const Subject& subject);
std::vector<Worst> single_precision(const Subject& subject);
std::vector<Worst> recurrent(const Subject& subject, DType dtype);
std::vector<Worst> large_inputs(const Subject& subject);
std::vector<Worst> state_growth(const Subject& subject);
std::vector<Worst> memory(const Subject& subject);
inline constexpr Sizes kMemorySizes{1, 1, 2048, 16, 16};  // of `memory`, at first

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

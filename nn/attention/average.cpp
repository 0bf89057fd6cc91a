// Average attention: every value that a position may see counts alike, so neither queries nor keys are read.
//
//   y_i = sum_{j <= i} v_j / i          (positions from 1)
//
// It is the sum rule with phi = 1, whose state is the sum of values and their number.
// Source: Zhang et al. 2018, "Accelerating neural Transformer via an average attention network", eq. 1, without its
// feed-forward layer and gate.
#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/attention/parts.h"
#include "nn/feature_map.h"

namespace linea {
namespace {

AttentionOptions with_one_column(AttentionOptions options) {
  options.key_size = 1;
  return options;
}

// Queries and keys of 1.
AttentionInputs with_ones(const AttentionInputs& in) {
  const Var ones(Tensor::full(in.v.shape().with(-1, 1), in.v.dtype(), 1.0));
  return {ones, ones, in.v, Var()};
}

class AverageAttention final : public MappedAttention {
 public:
  explicit AverageAttention(const AttentionOptions& options)
      : MappedAttention(with_one_column(options), make_feature_map("identity", 1)) {
    traits_.reads_keys = traits_.reads_queries = false;
    traits_.packed_qkv = traits_.bf16_inputs = false;
  }
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return MappedAttention::forward(with_ones(in), mask);
  }
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return MappedAttention::quadratic(with_ones(in), mask);
  }
  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return MappedAttention::step(state, with_ones(in));
  }
};

}  // namespace

AttentionEntry average_entry() {
  return {.name = "average",
          .summary = "the mean of the values so far",
          .source = "Zhang 2018",
          .settings = {},
          .make = construct<AverageAttention>,
          .cpu_only = true};
}

}  // namespace linea

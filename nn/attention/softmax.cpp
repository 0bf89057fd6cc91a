// Softmax attention, the baseline (autograd/softmax_attention.h). Its recurrent form keeps every
// key and value, so a position takes as long as there are positions before it.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/naive_tools.h"

namespace linea {
namespace {

class SoftmaxAttention final : public Attention {
 public:
  bool takes_packed() const override { return true; }
  bool takes_bf16() const override { return true; }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return softmax_attention(in, mask);
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
    return naive::softmax_attention(scale(matmul(in.q, in.k, false, true), 1.0 / root), in.v, mask);
  }

  std::unique_ptr<AttentionState> start(int64_t, DType) const override {
    return std::make_unique<KeyValueCache>();
  }

  bool state_grows() const override { return true; }  // by a key and a value

  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return softmax_step(dynamic_cast<KeyValueCache&>(state), in);
  }
};

}  // namespace

AttentionEntry softmax_entry() {
  return {.name = "softmax",
          .summary = "softmax attention, the baseline",
          .source = "Vaswani 2017",
          .settings = {},
          .make = [](const AttentionOptions&) { return std::make_unique<SoftmaxAttention>(); },
          .is_softmax = true};
}

}  // namespace linea

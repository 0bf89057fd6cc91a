// Softmax attention, the baseline (autograd/softmax_attention.h). Its recurrent form keeps every
// key and value, so a position takes as long as there are positions before it.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"

namespace linea {
namespace {

class SoftmaxAttention final : public Attention {
 public:
  explicit SoftmaxAttention(const AttentionOptions& options)
      : Attention({.packed_qkv = true,
                   .bf16_inputs = true,
                   .softmax_weights = true,
                   .step_capturable = false,  // the host counts the keys
                   .state_growth = 2}),
        key_size_(options.key_size),
        value_size_(options.value_size) {}

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

  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return softmax_step(dynamic_cast<KeyValueCache&>(state), in);
  }

  // Of (N + 1) / 2 keys: forward Q K^T and A V; backward Q K^T again, dV, dA, dQ, dK.
  AttentionFlops flops(int64_t length) const override {
    const double key = static_cast<double>((length + 1) * key_size_),
                 value = static_cast<double>((length + 1) * value_size_);
    return {key + value, 4 * key + 3 * value};
  }

 private:
  int64_t key_size_, value_size_;
};

}  // namespace

AttentionEntry softmax_entry() {
  return {.name = "softmax",
          .summary = "softmax attention, the baseline",
          .source = "Vaswani 2017",
          .settings = {},
          .make = [](const AttentionOptions& options) {
            return std::make_unique<SoftmaxAttention>(options);
          }};
}

}  // namespace linea

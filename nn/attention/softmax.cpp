// Softmax attention, the baseline (autograd/softmax_attention.h), of all keys or of those in a
// window. Its recurrent form keeps the keys and values that later positions see; the time of a
// position is linear in their number.
#include <algorithm>
#include <cstdlib>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

class SoftmaxAttention final : public Attention {
 public:
  explicit SoftmaxAttention(const AttentionOptions& options)
      : Attention(options, {.packed_qkv = true,
                            .bf16_inputs = true,
                            .softmax_weights = true,
                            .step_capturable = false,  // the host counts the keys
                            .rotary = Rotary::inputs}),
        window_(options.settings.integer("window")) {
    traits_.any_order = window_ == 0;
    traits_.state_growth = window_ == 0 ? 2 : 0;
    traits_.any_length = options.length == 0 || window_ <= options.length;
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return softmax_attention(in, mask, window_);
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    return naive::softmax_attention(scaled_scores(in.q, in.k), in.v, mask,
                                    [this](int64_t, int64_t i, int64_t j) {
                                      return window_ == 0 || std::abs(i - j) < window_;
                                    });
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    const int64_t slots = options_.length == 0 ? window_ : std::min(window_, options_.length);
    return std::make_unique<KeySlots>(key_slots(options_, batch, slots, dtype));
  }

  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    return softmax_step(dynamic_cast<KeySlots&>(state), in, window_ > 0);
  }

  // A query reads sum_i min(i + 1, W) / N keys.
  AttentionFlops flops(int64_t length) const override {
    const int64_t N = std::max<int64_t>(length, 1), W = window_ == 0 ? N : std::min(window_, N);
    return softmax_flops(options_,
                         static_cast<double>(W * (2 * N - W + 1)) / static_cast<double>(2 * N));
  }

 private:
  int64_t window_;  // 0: all keys
};

}  // namespace

AttentionEntry softmax_entry() {
  using namespace declare;
  return {.name = "softmax",
          .summary = "softmax attention, the baseline",
          .source = "Vaswani 2017",
          .settings = {labeled_if_changed(integer("window", 0, at_least(0),
                                                  "keys that a position sees, itself included, and "
                                                  "as many after it where not causal; 0: all"))},
          .make = construct<SoftmaxAttention>,
          .variants = {{}, {{"window", int64_t{40}}}}};
}

}  // namespace linea

#include "autograd/softmax_attention.h"

#include "autograd/qkv_layout.h"
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea {
namespace {

SoftmaxShape softmax_shape(const HeadTensor& q, const HeadTensor& k, const HeadTensor& v,
                           const AttentionMask& mask, int64_t window) {
  const int64_t own = k.length - q.length;  // the key at the position of query 0
  const int64_t reach = window == 0 ? k.length + q.length : window;
  return {attention_shape(q, k, v.width, mask.valid),
          {.first = own + 1 - reach, .end = own + (mask.causal ? 1 : reach)}};
}

}  // namespace

// The formulas of forward and backward: tensor/cpu/softmax_attention.cpp.
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t window) {
  check_heads("softmax_attention", in, mask.valid, {}, !mask.causal && window == 0);
  // Both passes compute from the saved inputs.
  const Heads saved = Heads::saved(in), heads = Heads::of(in);
  const int64_t H = heads.q.heads;
  const Tensor y = heads.new_output(),
               log_sums({heads.q.batches * H, heads.q.length}, sum_dtype(y.dtype()));
  const auto shape_of = [mask, window](const Heads& given, const Sequences& some) {
    return softmax_shape(given.q, given.k, given.v, {mask.causal, some.of(mask.valid)}, window);
  };
  saved.each_group(y.dtype(), [&](const Sequences& some, const Heads& given) {
    LINEA_LAUNCH(softmax_attention, y.dtype(), shape_of(given, some), given,
                 given.output_heads(some.of(y)), some.of(log_sums, H));
  });
  const Tensor saved_y = ops::cast(y, saved_dtype(y.dtype()));
  return Var::from_op(
      "softmax_attention", y, input_vars(in),
      [saved, saved_y, log_sums, H, shape_of](const Tensor& dy) {
        const Heads all = saved.new_gradients(dy.dtype());
        saved.each_group(dy.dtype(), [&](const Sequences& some, const Heads& given) {
          const Tensor result = ops::cast(some.of(saved_y), dy.dtype());
          const Heads grads = all.batch(some.first, some.count);
          LINEA_LAUNCH(softmax_attention_backward, dy.dtype(), shape_of(given, some), given,
                       given.output_heads(result), some.of(log_sums, H),
                       given.output_heads(some.of(dy)), grads);
        });
        return input_gradients(all);
      },
      saved_y);
}

Tensor softmax_step(KeySlots& slots, const AttentionInputs& in, bool ring) {
  const Heads position = Heads::of(in);
  const Tensor y = position.new_output();
  write_slot(slots, ring ? slots.next % slots.keys.size(2) : slots.next, in);
  ++slots.next;
  SoftmaxShape shape = softmax_shape(position.q, slots.keys, slots.values, {false, {}}, 0);
  shape.keys = static_cast<int64_t>(slots.positions.size());
  const Tensor log_sums({shape.batch_heads}, sum_dtype(y.dtype()));
  LINEA_LAUNCH(softmax_attention, y.dtype(), shape, Heads{position.q, slots.keys, slots.values},
               position.output_heads(y), log_sums);
  return y;
}

}  // namespace linea

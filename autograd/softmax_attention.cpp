#include "autograd/softmax_attention.h"

#include <algorithm>
#include <cmath>

#include "autograd/qkv_layout.h"
#include "tensor/ops.h"

namespace linea {
namespace {

SoftmaxShape softmax_shape(const HeadTensor& q, const HeadTensor& k, const HeadTensor& v,
                           const AttentionMask& mask, int64_t window) {
  const int64_t own = k.length - q.length;  // the key at the position of query 0
  const int64_t reach = window == 0 ? k.length + q.length : window;
  return {.batch_heads = q.batches * q.heads,
          .queries = q.length,
          .keys = k.length,
          .key_size = q.width,
          .value_size = v.width,
          .valid = {mask.valid.data_or_null<int32_t>(), q.heads, 0},
          .scale = 1.0 / std::sqrt(static_cast<double>(q.width)),
          .ranges = {.first = own + 1 - reach, .end = own + (mask.causal ? 1 : reach)}};
}

// Errors: those of check_heads, except for queries of another number where no mask counts positions.
void check_inputs(const AttentionInputs& in, const AttentionMask& mask, int64_t window) {
  const bool counts = mask.causal || window > 0 || in.qkv.defined() || in.q.shape().rank() != 4 ||
                      in.k.shape().rank() != 4;
  AttentionInputs keys = in;
  if (!counts && in.q.size(2) != in.k.size(2)) {
    ops::common_dtype("softmax_attention", {&in.q.value(), &in.k.value()});
    ops::require_shape("softmax_attention", "q", in.q.value(), in.k.shape().with(2, in.q.size(2)));
    keys.q = in.k;
  }
  check_heads("softmax_attention", keys, mask.valid);
}

}  // namespace

// The formulas of forward and backward: tensor/cpu/softmax_attention.cpp.
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t window) {
  check_inputs(in, mask, window);
  // Both passes compute from the saved inputs.
  const Heads saved = Heads::saved(in), heads = Heads::of(in);
  const int64_t H = heads.q.heads;
  const Tensor y = heads.new_output(),
               log_sums({heads.q.batches * H, heads.q.length}, sum_dtype(y.dtype()));
  const auto shape_of = [mask, window](const Heads& given, const Sequences& some) {
    return softmax_shape(given.q, given.k, given.v, {mask.causal, some.of(mask.valid)}, window);
  };
  return with_stored(y.dtype(), "softmax_attention", [&](auto zero) {
    using T = decltype(zero);
    saved.each_group(y.dtype(), [&](const Sequences& some, const Heads& given) {
      kernels<T>(context().device)
          .softmax_attention(context(), shape_of(given, some), given.q.rows<T>(), given.k.rows<T>(),
                             given.v.rows<T>(), given.output_heads(some.of(y)).template rows<T>(),
                             some.of(log_sums, H).template data<Accumulator<T>>());
    });
    const Tensor saved_y = ops::cast(y, saved_dtype(y.dtype()));
    return Var::from_op(
        "softmax_attention", y, input_vars(in),
        [saved, saved_y, log_sums, H, shape_of](const Tensor& dy) {
          const Heads all = saved.new_gradients(dy.dtype());
          saved.each_group(dy.dtype(), [&](const Sequences& some, const Heads& given) {
            const Tensor result = ops::cast(some.of(saved_y), dy.dtype());
            const Heads grads = all.batch(some.first, some.count);
            kernels<T>(context().device)
                .softmax_attention_backward(
                    context(), shape_of(given, some), given.q.rows<T>(), given.k.rows<T>(),
                    given.v.rows<T>(), given.output_heads(result).template rows<T>(),
                    some.of(log_sums, H).template data<Accumulator<T>>(),
                    given.output_heads(some.of(dy)).template rows<T>(), grads.q.rows<T>(),
                    grads.k.rows<T>(), grads.v.rows<T>());
          });
          return input_gradients(all);
        },
        saved_y);
  });
}

Tensor softmax_step(KeySlots& slots, const AttentionInputs& in, bool ring) {
  const Heads position = Heads::of(in);
  const Tensor y = position.new_output();
  write_slot(slots, ring ? slots.next % slots.keys.size(2) : slots.next, in);
  ++slots.next;
  with_stored(y.dtype(), "softmax_attention", [&](auto zero) {
    using T = decltype(zero);
    SoftmaxShape shape = softmax_shape(position.q, slots.keys, slots.values, {false, {}}, 0);
    shape.keys = static_cast<int64_t>(slots.positions.size());
    const Tensor log_sums({shape.batch_heads}, sum_dtype(y.dtype()));
    kernels<T>(context().device)
        .softmax_attention(context(), shape, position.q.rows<T>(), HeadTensor(slots.keys).rows<T>(),
                           HeadTensor(slots.values).rows<T>(),
                           position.output_heads(y).template rows<T>(),
                           log_sums.data<Accumulator<T>>());
  });
  return y;
}

}  // namespace linea

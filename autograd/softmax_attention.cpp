#include "autograd/softmax_attention.h"

#include <cmath>

#include "autograd/qkv_layout.h"
#include "tensor/ops.h"

namespace linea {
namespace {

SoftmaxShape softmax_shape(const HeadTensor& q, const HeadTensor& k, const HeadTensor& v,
                           const AttentionMask& mask) {
  SoftmaxShape shape{};
  shape.batch_heads = q.batches * q.heads;
  shape.queries = q.length;
  shape.keys = k.length;
  shape.key_size = q.width;
  shape.value_size = v.width;
  shape.valid = {mask.valid.defined() ? mask.valid.data<int32_t>() : nullptr, q.heads, 0};
  shape.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_size));
  shape.causal = mask.causal;
  return shape;
}

// Copies x to position `at` of `cached` [B,H,capacity,width].
template <typename T>
void copy_to(const HeadTensor& x, int64_t at, const Tensor& cached) {
  kernels<T>(context().device)
      .copy_rows(context(), x.rows<const T>(), HeadTensor(cached).rows<T>(0, at),
                 x.batches * x.heads, x.length, x.width);
}

template <typename T>
void append(KeyValueCache& cache, const Heads& position) {
  if (cache.length == cache.capacity) {
    const int64_t capacity = cache.capacity == 0 ? 64 : 2 * cache.capacity;
    const auto grow = [&](Tensor& cached, const HeadTensor& x) {
      const Tensor larger({cache.batch, cache.heads, capacity, x.width}, x.data.dtype());
      if (cache.length > 0) copy_to<T>(cached, 0, larger);
      cached = larger;
    };
    grow(cache.keys, position.k);
    grow(cache.values, position.v);
    cache.capacity = capacity;
  }
  copy_to<T>(position.k, cache.length, cache.keys);
  copy_to<T>(position.v, cache.length, cache.values);
  ++cache.length;
}

}  // namespace

// The formulas of forward and backward: tensor/cpu/softmax_attention.cpp.
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask) {
  check_heads("softmax_attention", in, mask.valid);
  const Heads heads = Heads::of(in);
  const SoftmaxShape shape = softmax_shape(heads.q, heads.k, heads.v, mask);
  const Tensor y = heads.new_output(),
               log_sums({shape.batch_heads, shape.queries}, sum_dtype(y.dtype()));
  return with_stored(y.dtype(), "softmax_attention", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device)
        .softmax_attention(context(), shape, heads.q.rows<const T>(), heads.k.rows<const T>(),
                           heads.v.rows<const T>(), heads.output_heads(y).template rows<T>(),
                           log_sums.data<Accumulator<T>>());
    return Var::from_op(
        "softmax_attention", y, input_vars(in),
        [heads, y, log_sums, shape, valid = mask.valid](const Tensor& dy) {
          const Heads grads = heads.new_gradients();
          kernels<T>(context().device)
              .softmax_attention_backward(
                  context(), shape, heads.q.rows<const T>(), heads.k.rows<const T>(),
                  heads.v.rows<const T>(), heads.output_heads(y).template rows<const T>(),
                  log_sums.data<Accumulator<T>>(), heads.output_heads(dy).template rows<const T>(),
                  grads.q.rows<T>(), grads.k.rows<T>(), grads.v.rows<T>());
          return input_gradients(grads);
        });
  });
}

Tensor softmax_step(KeyValueCache& cache, const AttentionStep& in) {
  const Heads position = Heads::of(in, cache.batch, cache.heads);
  const Tensor y({cache.batch, cache.heads, position.v.width}, position.v.data.dtype());
  with_stored(y.dtype(), "softmax_attention", [&](auto zero) {
    using T = decltype(zero);
    append<T>(cache, position);
    SoftmaxShape shape = softmax_shape(position.q, cache.keys, cache.values, {});
    shape.keys = cache.length;
    const Tensor log_sums({shape.batch_heads}, sum_dtype(y.dtype()));
    kernels<T>(context().device)
        .softmax_attention(context(), shape, position.q.rows<const T>(),
                           HeadTensor(cache.keys).rows<const T>(),
                           HeadTensor(cache.values).rows<const T>(),
                           one_row(y.data<T>(), position.v.width), log_sums.data<Accumulator<T>>());
  });
  return y;
}

}  // namespace linea

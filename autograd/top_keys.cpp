#include "autograd/top_keys.h"

#include <cmath>

#include "autograd/decisions.h"
#include "autograd/qkv_layout.h"

namespace linea {
namespace {

TopKeysShape shape_of(const HeadTensor& q, const HeadTensor& k, int64_t values,
                      const AttentionMask& mask, int64_t count) {
  return {.batch_heads = q.batches * q.heads,
          .queries = q.length,
          .keys = k.length,
          .key_size = q.width,
          .value_size = values,
          .count = std::min(count, k.length),
          .causal = mask.causal,
          .valid = {mask.valid.data_or_null<int32_t>(), q.heads, 0},
          .scale = 1.0 / std::sqrt(static_cast<double>(q.width))};
}

template <typename T>
Tensor choose(const Heads& heads, const TopKeysShape& shape) {
  const Shape chosen{heads.q.batches, heads.q.heads, shape.queries, shape.count + 1};
  return decide(chosen, shape.keys, [&] {
    const Tensor result(chosen, DType::i32);
    kernels<T>(context().device)
        .top_keys(context(), shape, heads.q.rows<T>(), heads.k.rows<T>(), result.data<int32_t>());
    return result;
  });
}

template <typename T>
AttentionRows<T> row_views(const Heads& heads) {
  using U = std::remove_const_t<T>;
  return {heads.q.rows<U>(), heads.k.rows<U>(), heads.v.rows<U>()};
}

}  // namespace

// The formulas of forward and backward: tensor/cpu/top_keys.cpp.
Var top_keys_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t count) {
  check_heads("top_keys_attention", in, mask.valid);
  const Heads heads = Heads::of(in);
  const TopKeysShape shape = shape_of(heads.q, heads.k, heads.v.width, mask, count);
  const Tensor y = heads.new_output(), log_sums({shape.batch_heads, shape.queries}, y.dtype());
  return with_real(y.dtype(), "top_keys_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor chosen = choose<T>(heads, shape);
    kernels<T>(context().device)
        .listed_attention(context(), shape, row_views<const T>(heads), chosen.data<int32_t>(),
                          HeadTensor(y).rows<T>(), log_sums.data<T>());
    return Var::from_op(
        "top_keys_attention", y, input_vars(in),
        [=](const Tensor& dy) {
          const Heads grads = heads.new_gradients(dy.dtype());
          kernels<T>(context().device)
              .listed_attention_backward(
                  context(), shape_of(heads.q, heads.k, heads.v.width, mask, count),
                  row_views<const T>(heads), chosen.data<int32_t>(), HeadTensor(y).rows<T>(),
                  log_sums.data<T>(), HeadTensor(dy).rows<T>(), row_views<T>(grads));
          return input_gradients(grads);
        },
        y);
  });
}

Tensor top_keys_step(const Heads& heads, int64_t count) {
  const TopKeysShape shape = shape_of(heads.q, heads.k, heads.v.width, {true, {}}, count);
  const DType dtype = heads.q.data.dtype();
  const Tensor y(heads.q.data.shape().with(-1, heads.v.width), dtype),
      log_sums({shape.batch_heads}, dtype);
  with_real(dtype, "top_keys_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor chosen = choose<T>(heads, shape);
    kernels<T>(context().device)
        .listed_attention(context(), shape, row_views<const T>(heads), chosen.data<int32_t>(),
                          HeadTensor(y).rows<T>(), log_sums.data<T>());
  });
  return y;
}

}  // namespace linea

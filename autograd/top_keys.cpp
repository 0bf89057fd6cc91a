#include "autograd/top_keys.h"

#include "autograd/decisions.h"
#include "autograd/qkv_layout.h"
#include "tensor/launch.h"

namespace linea {
namespace {

TopKeysShape shape_of(const Heads& heads, const AttentionMask& mask, int64_t count) {
  return {attention_shape(heads.q, heads.k, heads.v.width, mask.valid),
          std::min(count, heads.k.length), mask.causal};
}

Tensor choose(const Heads& heads, const TopKeysShape& shape) {
  const Shape chosen{heads.q.batches, heads.q.heads, shape.queries, shape.count + 1};
  return decide(chosen, shape.keys, [&] {
    const Tensor result(chosen, DType::i32);
    LINEA_LAUNCH(top_keys, heads.q.data.dtype(), shape, heads.q, heads.k, ops::data(result));
    return result;
  });
}

}  // namespace

// The formulas of forward and backward: tensor/cpu/top_keys.cpp.
Var top_keys_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t count) {
  check_heads("top_keys_attention", in, mask.valid);
  const Heads heads = Heads::of(in);
  const TopKeysShape shape = shape_of(heads, mask, count);
  const Tensor y = heads.new_output(), log_sums({shape.batch_heads, shape.queries}, y.dtype()),
               chosen = choose(heads, shape);
  LINEA_LAUNCH(listed_attention, y.dtype(), shape, heads, ops::data(chosen), HeadTensor(y),
               ops::data(log_sums));
  return Var::from_op(
      "top_keys_attention", y, input_vars(in),
      [=](const Tensor& dy) {
        const Heads grads = heads.new_gradients(dy.dtype());
        LINEA_LAUNCH(listed_attention_backward, dy.dtype(), shape_of(heads, mask, count), heads,
                     ops::data(chosen), HeadTensor(y), ops::data(log_sums), HeadTensor(dy), grads);
        return input_gradients(grads);
      },
      y);
}

Tensor top_keys_step(const Heads& heads, int64_t count) {
  const TopKeysShape shape = shape_of(heads, {true, {}}, count);
  const DType dtype = heads.q.data.dtype();
  const Tensor y(heads.q.data.shape().with(-1, heads.v.width), dtype),
      log_sums({shape.batch_heads}, dtype), chosen = choose(heads, shape);
  LINEA_LAUNCH(listed_attention, dtype, shape, heads, ops::data(chosen), HeadTensor(y),
               ops::data(log_sums));
  return y;
}

}  // namespace linea

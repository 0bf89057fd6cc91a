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

// The attention to the keys that are chosen.
struct Listed {
  Tensor y, log_sums, chosen;
};
Listed listed_attention(const Heads& heads, const TopKeysShape& shape) {
  const DType dtype = heads.v.data.dtype();
  const Shape of_chosen{heads.q.batches, heads.q.heads, shape.queries, shape.count + 1};
  const Tensor y = heads.new_output(), log_sums({shape.batch_heads, shape.queries}, dtype),
               chosen = decide(of_chosen, shape.keys, [&] {
                 const Tensor result(of_chosen, DType::i32);
                 LINEA_LAUNCH(top_keys, dtype, shape, heads.q, heads.k, result);
                 return result;
               });
  LINEA_LAUNCH(listed_attention, dtype, shape, heads, chosen, HeadTensor(y), log_sums);
  return {y, log_sums, chosen};
}

}  // namespace

// The formulas of forward and backward: tensor/cpu/top_keys.cpp.
Var top_keys_attention(const AttentionInputs& in, const AttentionMask& mask, int64_t count) {
  check_heads("top_keys_attention", in, mask.valid);
  const Heads heads = Heads::of(in);
  const Listed saved = listed_attention(heads, shape_of(heads, mask, count));
  return Var::from_op(
      "top_keys_attention", saved.y, input_vars(in),
      [=](const Tensor& dy) {
        const Heads grads = heads.new_gradients(dy.dtype());
        LINEA_LAUNCH(listed_attention_backward, dy.dtype(), shape_of(heads, mask, count), heads,
                     saved.chosen, HeadTensor(saved.y), saved.log_sums, HeadTensor(dy), grads);
        return input_gradients(grads);
      },
      saved.y);
}

Tensor top_keys_step(const Heads& heads, int64_t count) {
  return listed_attention(heads, shape_of(heads, {true, {}}, count)).y;
}

}  // namespace linea

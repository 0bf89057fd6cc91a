#include "autograd/qkv_layout.h"

#include "tensor/ops.h"

namespace linea {

Shape check_heads(const char* op, const AttentionInputs& in, const Tensor& valid,
                  const RuleGates& gates, bool any_keys) {
  Shape positions;  // B, H, N
  if (in.qkv.defined()) {
    ops::common_dtype(op, {&in.qkv.value()});
    require(in.qkv.shape().rank() == 3 && in.heads > 0 && in.qkv.size(2) % (3 * in.heads) == 0,
            "{}: qkv {} is not [B,N,3 H D] of {} heads", op, in.qkv.shape(), in.heads);
    positions = {in.qkv.size(0), in.heads, in.qkv.size(1)};
  } else {
    ops::common_dtype(op, {&in.q.value(), &in.k.value(), &in.v.value()});
    require(in.q.shape().rank() == 4 && in.v.shape().rank() == 4,
            "{}: q {} and v {} are not [B,H,N,D]", op, in.q.shape(), in.v.shape());
    const int64_t keys = any_keys && in.k.shape().rank() == 4 ? in.k.size(2) : in.q.size(2);
    ops::require_shape(op, "k", in.k.value(), in.q.shape().with(2, keys));
    ops::require_shape(op, "v", in.v.value(), in.k.shape().with(-1, in.v.size(-1)));
    positions = {in.q.size(0), in.q.size(1), in.q.size(2)};
  }
  if (valid.defined()) ops::require_shape(op, "valid", valid, {positions[0]});
  const auto check = [&](const char* name, const Var& gate) {
    if (gate.defined()) ops::require_shape(op, name, gate.value(), positions);
  };
  if (!gates.log_decay.defined() || gates.log_decay.shape().rank() != 4)
    check("log_decay", gates.log_decay);  // else its width is that of features
  check("log_weight", gates.log_weight);
  check("beta", gates.beta);
  return positions;
}

Heads Heads::as(DType dtype) const {
  Heads all = *this;
  all.q.data = ops::cast(q.data, dtype);
  all.k.data = packed ? all.q.data : ops::cast(k.data, dtype);
  all.v.data = packed ? all.q.data : ops::cast(v.data, dtype);
  return all;
}

Heads Heads::batch(int64_t first, int64_t count) const {
  Heads some = *this;
  for (HeadTensor* x : {&some.q, &some.k, &some.v}) {
    x->data = x->data.rows(first, count);
    x->batches = count;
  }
  return some;
}

std::vector<Var> input_vars(const AttentionInputs& in) {
  if (in.qkv.defined()) return {in.qkv};
  return {in.q, in.k, in.v};
}

Gradients input_gradients(const Heads& grads) {
  if (grads.packed) return {grads.q.data};
  return {grads.q.data, grads.k.data, grads.v.data};
}

}  // namespace linea

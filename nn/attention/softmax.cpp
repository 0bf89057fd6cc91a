// Softmax attention, the baseline: y_i = sum_j exp(q_i.k_j / sqrt(D)) v_j / sum_j exp(q_i.k_j / sqrt(D)).
// Source: Vaswani 2017, "Attention is all you need", eq. 1. Time O(N^2); memory O(N), for the kernel goes
// block by block. Its recurrent form keeps every key and value.
#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "nn/attention.h"
#include "nn/quadratic.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// Keys [B,H,capacity,D] and values [B,H,capacity,M], of which the first `length` are filled.
class Cache final : public AttentionState {
 public:
  size_t bytes() const override { return keys.bytes() + values.bytes(); }
  Tensor keys, values;
  int64_t capacity = 0, length = 0;
};

SoftmaxShape shape_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask) {
  SoftmaxShape shape{};
  shape.pairs = q.size(0) * q.size(1);
  shape.queries = q.size(2);
  shape.keys = k.size(2);
  shape.key_size = q.size(3);
  shape.value_size = v.size(3);
  shape.key_stride = shape.keys * shape.key_size;
  shape.value_stride = shape.keys * shape.value_size;
  shape.valid = {mask.valid.defined() ? mask.valid.data<int32_t>() : nullptr, q.size(1), 0};
  shape.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_size));
  shape.causal = mask.causal;
  return shape;
}

// Formulas of forward and backward: tensor/cpu/softmax_attention.cpp.
template <typename T>
Var softmax_attention(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) {
  const SoftmaxShape shape = shape_of(q.value(), k.value(), v.value(), mask);
  const Tensor y(v.shape(), v.dtype()), log_sums({shape.pairs, shape.queries}, v.dtype());
  kernels<T>(context().device)
      .softmax_attention(context(), shape, q.value().data<T>(), k.value().data<T>(), v.value().data<T>(),
                         y.data<T>(), log_sums.data<T>());
  return Var::made_by("softmax_attention", y, {q, k, v},
                      [q = q.value(), k = k.value(), v = v.value(), y, log_sums, shape,
                       valid = mask.valid](const Tensor& dy) -> std::vector<Gradient> {
                        const Tensor dq(q.shape(), q.dtype()), dk(k.shape(), k.dtype()),
                            dv(v.shape(), v.dtype());
                        kernels<T>(context().device)
                            .softmax_attention_backward(context(), shape, q.data<T>(), k.data<T>(),
                                                        v.data<T>(), y.data<T>(), log_sums.data<T>(),
                                                        dy.data<T>(), dq.data<T>(), dk.data<T>(),
                                                        dv.data<T>());
                        return {dq, dk, dv};
                      });
}

template <typename T>
void append(Cache& cache, const Tensor& k, const Tensor& v) {
  const int64_t B = k.size(0), H = k.size(1), D = k.size(2), M = v.size(2), pairs = B * H;
  const Kernels<T>& table = kernels<T>(context().device);
  if (cache.length == cache.capacity) {
    const int64_t grown = cache.capacity == 0 ? 64 : 2 * cache.capacity;
    const Tensor keys({B, H, grown, D}, k.dtype()), values({B, H, grown, M}, v.dtype());
    if (cache.length > 0) {
      table.copy_runs(context(), {cache.keys.data<T>(), cache.capacity * D}, {keys.data<T>(), grown * D},
                      pairs, cache.length * D);
      table.copy_runs(context(), {cache.values.data<T>(), cache.capacity * M},
                      {values.data<T>(), grown * M}, pairs, cache.length * M);
    }
    cache.keys = keys;
    cache.values = values;
    cache.capacity = grown;
  }
  table.copy_runs(context(), {k.data<T>(), D},
                  {cache.keys.data<T>() + cache.length * D, cache.capacity * D}, pairs, D);
  table.copy_runs(context(), {v.data<T>(), M},
                  {cache.values.data<T>() + cache.length * M, cache.capacity * M}, pairs, M);
  ++cache.length;
}

class SoftmaxAttention final : public Attention {
 public:
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Var &q = in.q, &k = in.k, &v = in.v;
    const DType dtype = ops::common_dtype("softmax_attention", {&q.value(), &k.value(), &v.value()});
    ops::require_shape("softmax_attention", "k", k.value(), q.shape());
    ops::require_shape("softmax_attention", "v", v.value(), q.shape().with(-1, v.size(-1)));
    if (mask.valid.defined())
      ops::require_shape("softmax_attention", "valid", mask.valid, {q.size(0)});
    return with_real(dtype, "softmax_attention",
                     [&](auto zero) { return softmax_attention<decltype(zero)>(q, k, v, mask); });
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
    const Var scores = scale(matmul(in.q, in.k, false, true), 1.0 / root);
    return matmul(softmax(hide_unseen(scores, mask, -std::numeric_limits<double>::infinity())), in.v);
  }

  std::unique_ptr<AttentionState> start(int64_t, DType) const override {
    return std::make_unique<Cache>();
  }

  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    Cache& cache = dynamic_cast<Cache&>(state);
    const Tensor &q = in.q, &k = in.k, &v = in.v;
    return with_real(q.dtype(), "softmax_attention", [&](auto zero) {
      using T = decltype(zero);
      append<T>(cache, k, v);
      const Tensor one_query = q.reshape({q.size(0), q.size(1), 1, q.size(2)});
      SoftmaxShape shape = shape_of(one_query, cache.keys, cache.values, {});
      shape.keys = cache.length;
      const Tensor y(v.shape(), v.dtype()), log_sums({shape.pairs}, v.dtype());
      kernels<T>(context().device)
          .softmax_attention(context(), shape, q.data<T>(), cache.keys.data<T>(), cache.values.data<T>(),
                             y.data<T>(), log_sums.data<T>());
      return y;
    });
  }
};

AttentionOptions plain() {
  AttentionOptions options;
  options.attention = "softmax";
  return options;
}

const Registration kRegistration({"softmax", "", {plain()}, [](const AttentionOptions&) {
                                    return std::make_unique<SoftmaxAttention>();
                                  }});

}  // namespace
}  // namespace linea

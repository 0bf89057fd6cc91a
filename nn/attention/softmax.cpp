// Softmax attention, the baseline: y_i = sum_j exp(q_i.k_j / sqrt(D)) v_j / sum_j exp(q_i.k_j /
// sqrt(D)). Source: Vaswani 2017, "Attention is all you need", eq. 1. Time O(N^2); memory O(N), for
// the kernel goes block by block. Its recurrent form keeps every key and value.
#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "nn/qkv_layout.h"
#include "nn/quadratic.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// Keys [B,H,capacity,D] and values [B,H,capacity,M], of which the first `length` are filled.
class Cache final : public AttentionState {
 public:
  Cache(int64_t batch, int64_t H) : B(batch), heads(H) {}
  size_t bytes() const override { return capacity == 0 ? 0 : keys.bytes() + values.bytes(); }
  int64_t B, heads, capacity = 0, length = 0;
  Tensor keys, values;
};

SoftmaxShape shape_of(const HeadTensor& q, const HeadTensor& k, const HeadTensor& v,
                      const AttentionMask& mask) {
  SoftmaxShape shape{};
  shape.pairs = q.batches * q.heads;
  shape.queries = q.length;
  shape.keys = k.length;
  shape.key_size = q.width;
  shape.value_size = v.width;
  shape.valid = {mask.valid.defined() ? mask.valid.data<int32_t>() : nullptr, q.heads, 0};
  shape.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_size));
  shape.causal = mask.causal;
  return shape;
}

// Formulas of forward and backward: tensor/cpu/softmax_attention.cpp.
template <typename T>
Var softmax_attention(const AttentionInputs& in, const AttentionMask& mask) {
  const Heads given = Heads::of(in);
  const SoftmaxShape shape = shape_of(given.q, given.k, given.v, mask);
  const Tensor y = given.new_output(), log_sums({shape.pairs, shape.queries}, sum_dtype(y.dtype()));
  kernels<T>(context().device)
      .softmax_attention(context(), shape, given.q.rows<const T>(), given.k.rows<const T>(),
                         given.v.rows<const T>(), given.output_heads(y).template rows<T>(),
                         log_sums.data<Accumulator<T>>());
  return Var::from_op(
      "softmax_attention", y, inputs_of(in),
      [given, y, log_sums, shape, valid = mask.valid](const Tensor& dy) {
        const Heads grads = given.new_gradients();
        kernels<T>(context().device)
            .softmax_attention_backward(
                context(), shape, given.q.rows<const T>(), given.k.rows<const T>(),
                given.v.rows<const T>(), given.output_heads(y).template rows<const T>(),
                log_sums.data<Accumulator<T>>(), given.output_heads(dy).template rows<const T>(),
                grads.q.rows<T>(), grads.k.rows<T>(), grads.v.rows<T>());
        return gradients_of(grads);
      });
}

// x at position `at` of what is kept [B,H,capacity,width].
template <typename T>
void keep(const HeadTensor& x, int64_t at, const Tensor& kept) {
  kernels<T>(context().device)
      .copy_rows(context(), x.rows<const T>(), HeadTensor(kept).rows<T>(0, at), x.batches * x.heads,
                 x.length, x.width);
}

template <typename T>
void append(Cache& cache, const Heads& now) {
  if (cache.length == cache.capacity) {
    const int64_t grown = cache.capacity == 0 ? 64 : 2 * cache.capacity;
    const Tensor keys({cache.B, cache.heads, grown, now.k.width}, now.k.data.dtype());
    const Tensor values({cache.B, cache.heads, grown, now.v.width}, now.v.data.dtype());
    if (cache.length > 0) {
      keep<T>(cache.keys, 0, keys);
      keep<T>(cache.values, 0, values);
    }
    cache.keys = keys;
    cache.values = values;
    cache.capacity = grown;
  }
  keep<T>(now.k, cache.length, cache.keys);
  keep<T>(now.v, cache.length, cache.values);
  ++cache.length;
}

class SoftmaxAttention final : public Attention {
 public:
  explicit SoftmaxAttention(const AttentionOptions& options) : heads_(options.heads) {}

  bool takes_packed() const override { return true; }
  bool takes_bf16() const override { return true; }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    check_heads("softmax_attention", in, mask.valid);
    return with_stored(inputs_of(in)[0].dtype(), "softmax_attention",
                       [&](auto zero) { return softmax_attention<decltype(zero)>(in, mask); });
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
    const Var scores = scale(matmul(in.q, in.k, false, true), 1.0 / root);
    return matmul(softmax(hide_unseen(scores, mask, -std::numeric_limits<double>::infinity())),
                  in.v);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType) const override {
    return std::make_unique<Cache>(batch, heads_);
  }

  bool is_step_capturable() const override { return false; }  // more keys at each

  Tensor step(AttentionState& state, const AttentionStep& in) const override {
    Cache& cache = dynamic_cast<Cache&>(state);
    const Heads now = Heads::of(in, cache.B, cache.heads);
    const Tensor y({cache.B, cache.heads, now.v.width}, now.v.data.dtype());
    with_stored(y.dtype(), "softmax_attention", [&](auto zero) {
      using T = decltype(zero);
      append<T>(cache, now);
      SoftmaxShape shape = shape_of(now.q, cache.keys, cache.values, {});
      shape.keys = cache.length;
      const Tensor log_sums({shape.pairs}, sum_dtype(y.dtype()));
      kernels<T>(context().device)
          .softmax_attention(context(), shape, now.q.rows<const T>(),
                             HeadTensor(cache.keys).rows<const T>(),
                             HeadTensor(cache.values).rows<const T>(),
                             one_row(y.data<T>(), now.v.width), log_sums.data<Accumulator<T>>());
    });
    return y;
  }

 private:
  int64_t heads_;
};

AttentionOptions plain() {
  AttentionOptions options;
  options.attention = "softmax";
  return options;
}

const Registration kRegistration({"softmax", "", {plain()}, [](const AttentionOptions& options) {
                                    return std::make_unique<SoftmaxAttention>(options);
                                  }});

}  // namespace
}  // namespace linea

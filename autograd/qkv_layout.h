// q, k and v of all heads where they lie, so that none is moved for an attention's sake.
#pragma once

#include <type_traits>

#include "autograd/attention_inputs.h"
#include "tensor/kernels.h"

namespace linea {

// One of them, or its gradient: x [B,H,N,width], or a part of x [B,N,parts x H x width].
class HeadTensor {
 public:
  HeadTensor() = default;
  HeadTensor(const Tensor& x)  // NOLINT: a tensor of heads is one
      : data(x), batches(x.size(0)), heads(x.size(1)), length(x.size(2)), width(x.size(3)) {
    row_ = width;
    head_ = length * width;
    batch_ = heads * head_;
  }
  HeadTensor(const Tensor& x, int64_t part, int64_t parts, int64_t H)
      : data(x), batches(x.size(0)), heads(H), length(x.size(1)), width(x.size(2) / (parts * H)) {
    first_ = part * H * width;
    row_ = x.size(2);
    head_ = width;
    batch_ = length * row_;
  }

  template <typename T>
  HeadRows<T> rows(int64_t first_bh = 0, int64_t first = 0) const {
    return {data.data<std::remove_const_t<T>>() + first_ + first * row_,
            batch_,
            head_,
            row_,
            heads,
            first_bh};
  }
  bool whole() const { return row_ == width; }  // each pair in one piece, and one after the other

  Tensor data;
  int64_t batches = 0, heads = 1, length = 0, width = 0;

 private:
  int64_t first_ = 0, batch_ = 0, head_ = 0, row_ = 0;
};

// What an attention is given, and what it gives in the same layout.
struct Heads {
  HeadTensor q, k, v;
  bool packed = false;  // parts of one tensor

  static Heads of_parts(const Tensor& qkv, int64_t heads) {
    return {{qkv, 0, 3, heads}, {qkv, 1, 3, heads}, {qkv, 2, 3, heads}, true};
  }
  static Heads of(const AttentionInputs& in) {
    if (in.qkv.defined()) return of_parts(in.qkv.value(), in.heads);
    return {in.q.value(), in.k.value(), in.v.value()};
  }
  // One position as a sequence of length 1, of B sequences with H heads.
  static Heads of(const AttentionStep& in, int64_t B, int64_t H) {
    const auto alone = [&](const Tensor& x) {
      return HeadTensor(x.reshape({B, H, 1, x.size(-1)}));
    };
    if (in.qkv.defined()) return of_parts(in.qkv.reshape({B, 1, in.qkv.size(-1)}), H);
    return {alone(in.q), alone(in.k), alone(in.v)};
  }

  // Memory for y, for the gradients of q, k and v, and a y or dy as heads.
  Tensor new_output() const {
    const Shape& shape = v.data.shape();
    return Tensor(packed ? shape.with(2, v.heads * v.width) : shape, v.data.dtype());
  }
  Heads new_gradients() const {
    const auto like = [](const HeadTensor& x) { return Tensor(x.data.shape(), x.data.dtype()); };
    if (packed) return of_parts(like(q), q.heads);
    return {like(q), like(k), like(v)};
  }
  HeadTensor output_heads(const Tensor& y) const {
    return packed ? HeadTensor(y, 0, 1, v.heads) : HeadTensor(y);
  }
};

// Errors: shapes or dtypes of q, k, v, gate and valid that do not go together.
void check_heads(const char* op, const AttentionInputs& in, const Tensor& valid);

// The Vars behind them, in the order in which gradients_of gives their gradients.
std::vector<Var> inputs_of(const AttentionInputs& in);
std::vector<Gradient> gradients_of(const Heads& grads);

}  // namespace linea

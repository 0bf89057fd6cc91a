// Views of the heads of q, k and v in the tensors that hold them, so that attention copies none.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "autograd/attention_inputs.h"
#include "autograd/sequence_part.h"
#include "tensor/kernels.h"
#include "tensor/schedule.h"

namespace linea {

// q, k, v or a gradient of one: x [B,H,N,width], or slot 0, 1, ... of x [B,N,slots H width].
class HeadTensor {
 public:
  HeadTensor() = default;
  HeadTensor(const Tensor& x)  // NOLINT: a tensor of heads is one
      : data(x), batches(x.size(0)), heads(x.size(1)), length(x.size(2)), width(x.size(3)) {
    row_ = width;
    head_ = length * width;
    batch_ = heads * head_;
  }
  HeadTensor(const Tensor& x, int64_t slot, int64_t slots, int64_t H)
      : data(x), batches(x.size(0)), heads(H), length(x.size(1)), width(x.size(2) / (slots * H)) {
    first_ = slot * H * width;
    row_ = x.size(2);
    head_ = width;
    batch_ = length * row_;
  }

  template <typename T>
  HeadRows<T> rows(int64_t first_bh = 0, int64_t first = 0) const {
    return {data.data<T>() + first_ + first * row_, batch_, head_, row_, heads, first_bh};
  }
  // As the argument of a kernel.
  template <typename T>
  operator HeadRows<T>() const {
    return rows<std::remove_const_t<T>>();
  }
  // From this position on.
  HeadTensor from(int64_t first) const {
    HeadTensor rest = *this;
    rest.first_ += first * row_;
    return rest;
  }
  bool contiguous() const { return row_ == width; }

  Tensor data;
  int64_t batches = 0, heads = 1, length = 0, width = 0;

 private:
  int64_t first_ = 0, batch_ = 0, head_ = 0, row_ = 0;
};

// x [B,H,N,D] as [B H,N,D].
inline Tensor flat_heads(const Tensor& x) {
  return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)});
}

// Some sequences of a batch, and their part of a tensor of `rows` rows a sequence; undefined stays so.
struct Sequences {
  int64_t first = 0, count = 0;
  Tensor of(const Tensor& x, int64_t rows = 1) const {
    return x.defined() ? x.rows(first * rows, count * rows) : x;
  }
};

// Elements of saved inputs that are restored at a time.
inline constexpr int64_t kRestored = 1 << 20;

// The inputs of an attention, and its outputs in the same layout.
struct Heads {
  HeadTensor q, k, v;
  bool packed = false;  // in one tensor

  static Heads of_packed(const Tensor& qkv, int64_t heads) {
    return {{qkv, 0, 3, heads}, {qkv, 1, 3, heads}, {qkv, 2, 3, heads}, true};
  }
  static Heads of(const AttentionInputs& in, const Tensor& (Var::*tensor)() const = &Var::value) {
    if (in.qkv.defined()) return of_packed((in.qkv.*tensor)(), in.heads);
    return {(in.q.*tensor)(), (in.k.*tensor)(), (in.v.*tensor)()};
  }
  // The inputs in saved_dtype(), and for a pass in their own again.
  static Heads saved(const AttentionInputs& in) { return of(in, &Var::saved); }
  Heads as(DType dtype) const;
  // Sequences [first, first + count).
  Heads batch(int64_t first, int64_t count) const;

  // visit(sequences, heads) for all sequences. Inputs saved in another dtype exist in this one for
  // kRestored elements at a time, or for as many sequences as give each thread two heads.
  template <typename Visit>
  void each_group(DType dtype, const Visit& visit) const {
    const int64_t B = v.batches;
    int64_t group = B;
    if (v.data.dtype() != dtype) {
      const int64_t all =
          packed ? v.data.numel() : q.data.numel() + k.data.numel() + v.data.numel();
      group = std::max(
          {kRestored * B / std::max<int64_t>(all, 1), for_all_threads(2) / v.heads, int64_t{1}});
      if (sequence_part() != nullptr) group = 1;  // the same for parts of unlike lengths
    }
    for (int64_t b = 0; b < B; b += group) {
      const Sequences some{b, std::min(group, B - b)};
      visit(some, batch(some.first, some.count).as(dtype));
    }
  }

  // New tensors for y and for the gradients of q, k and v; y or dy as heads.
  Tensor new_output() const {
    const Shape& shape = q.data.shape();
    return Tensor(packed ? shape.with(2, v.heads * v.width) : shape.with(-1, v.width),
                  v.data.dtype());
  }
  Heads new_gradients(DType dtype) const {
    const auto like = [&](const HeadTensor& x) { return Tensor(x.data.shape(), dtype); };
    if (packed) return of_packed(like(q), q.heads);
    return {like(q), like(k), like(v)};
  }
  HeadTensor output_heads(const Tensor& y) const {
    return packed ? HeadTensor(y, 0, 1, v.heads) : HeadTensor(y);
  }

  // As the argument of a kernel.
  template <typename T>
  operator AttentionRows<T>() const {
    return {q, k, v};
  }
};

// Attention over k and values of this width, with scores divided by sqrt(D).
inline AttentionShape attention_shape(const HeadTensor& q, const HeadTensor& k, int64_t values,
                                      const Tensor& valid) {
  return {.batch_heads = q.batches * q.heads,
          .queries = q.length,
          .keys = k.length,
          .key_size = q.width,
          .value_size = values,
          .valid = {valid.data_or_null<int32_t>(), q.heads, 0},
          .scale = 1.0 / std::sqrt(static_cast<double>(q.width))};
}

// {B,H,N}. Errors: shapes or dtypes of q, k, v, gates and valid that do not go together.
// any_keys: k and v may have another number of rows than q.
Shape check_heads(const char* op, const AttentionInputs& in, const Tensor& valid,
                  const RuleGates& gates = {}, bool any_keys = false);

// The Vars of the inputs, and their gradients in the same order.
std::vector<Var> input_vars(const AttentionInputs& in);
Gradients input_gradients(const Heads& grads);

}  // namespace linea

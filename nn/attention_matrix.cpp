// The quadratic form of linear attention: every weight by itself, N x N of them. What the other
// forms are checked against.
#include "autograd/ops.h"
#include "autograd/tiles.h"
#include "nn/quadratic.h"

namespace linea {

Var attention_matrix(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const AttentionMask& mask) {
  check_heads("attention_matrix", in, mask.valid);
  const FeatureVars q = apply_features(map, in.q, Side::query),
                    k = apply_features(map, in.k, Side::key);
  const Var weight =
      in.gate.defined() ? pointwise(Pointwise::log_one_minus_gate, in.gate) : k.weight;
  const Var log_decay = in.gate.defined() ? pointwise(Pointwise::log_gate, in.gate) : Var();
  std::vector<Var> inputs = {q.rows, k.rows};
  if (weight.defined()) inputs.push_back(weight);
  if (log_decay.defined()) inputs.push_back(log_decay);
  const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), F = q.rows.size(3);
  return with_real(in.q.dtype(), "attention_matrix", [&](auto zero) {
    using T = decltype(zero);
    const auto shape_of = [=, kind = map->kind()](const Tensor& valid) {
      ChunkShape shape{B * H, N, F, 0, N};
      shape.valid = {valid.defined() ? valid.data<int32_t>() : nullptr, H, 0};
      shape.kind = kind;
      return shape;
    };
    const auto input_of = [N, F](const Tensor& rows_q, const Tensor& rows_k, const Tensor& w,
                                 const Tensor& decay) {
      ChunkInput<T> input;
      input.q = head_rows<const T>(rows_q.data<T>(), N, F);
      input.k = head_rows<const T>(rows_k.data<T>(), N, F);
      input.weight = {pointer<const T>(w), N};
      input.decay = {pointer<const T>(decay), N};
      return input;
    };
    const auto value_of = [](const Var& x) { return x.defined() ? x.value() : Tensor(); };
    const Tensor rows_q = q.rows.value(), rows_k = k.rows.value(), w = value_of(weight),
                 decay = value_of(log_decay);
    const Tensor matrix({B, H, N, N}, in.q.dtype());
    kernels<T>(context().device)
        .attention_matrix(context(), shape_of(mask.valid), input_of(rows_q, rows_k, w, decay),
                          mask.causal, matrix.data<T>());
    return Var::from_op("attention_matrix", matrix, inputs, [=](const Tensor& dmatrix) {
      const auto like = [](const Tensor& x) {
        return x.defined() ? Tensor(x.shape(), x.dtype()) : Tensor();
      };
      const Tensor dq = like(rows_q), dk = like(rows_k), dw = like(w), ddecay = like(decay);
      kernels<T>(context().device)
          .attention_matrix_backward(
              context(), shape_of(mask.valid), input_of(rows_q, rows_k, w, decay), mask.causal,
              dmatrix.data<T>(), dq.data<T>(), dk.data<T>(), pointer<T>(dw), pointer<T>(ddecay));
      std::vector<Gradient> result = {dq, dk};
      if (dw.defined()) result.emplace_back(dw);
      if (ddecay.defined()) result.emplace_back(ddecay);
      return result;
    });
  });
}

Var linear_quadratic(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const AttentionMask& mask) {
  return matmul(attention_matrix(map, in, mask), in.v);
}

}  // namespace linea

#include <algorithm>
#include <numeric>

#include "autograd/ops.h"
#include "autograd/qkv_layout.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// codes [H,F,D] as rows [H F,D]
Tensor flat_codes(const Tensor& codes) {
  return codes.reshape({codes.size(0) * codes.size(1), codes.size(2)});
}

}  // namespace

Var quantize(const Var& k, const Tensor& codebook) {
  const Tensor keys = flat_heads(k.value());
  const Tensor y = ops::embedding(flat_codes(codebook), ops::nearest_code(keys, codebook, 0));
  return Var::from_op("quantize", y.reshape(k.shape()), {k}, [](const Tensor& dy) { return dy; });
}

// With n keys: dk = 2 beta / n (k - c_z), dc_f = 2 / n sum of c_f - k over the keys of code f
Commitment commitment_loss(const Var& k, const Var& codebook, double beta, const Tensor& valid) {
  const auto cleared = [&](const Tensor& x) {
    if (valid.defined()) ops::clear_padding(x.reshape(k.shape().with(-1, x.size(-1))), valid);
    return x;
  };
  const Tensor keys = flat_heads(clear_padding(Var(k.value()), valid).value()),
               codes = flat_codes(codebook.value());
  const Tensor nearest = ops::nearest_code(keys, codebook.value(), 0);
  const Tensor difference =
      cleared(ops::add(keys, ops::scale(ops::embedding(codes, nearest), -1.0)));  // k - c_z
  const Tensor ones = cleared(Tensor::full({nearest.numel(), 1}, keys.dtype(), 1.0)),
               counts = ops::embedding_backward(nearest, ones, codes.size(0)),  // [H F,1]
      sums = ops::embedding_backward(nearest, keys, codes.size(0));
  const std::vector<int32_t> lengths = AttentionMask{true, valid}.lengths(k.size(0), k.size(2));
  const int64_t rows = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const double inverse = 1.0 / static_cast<double>(k.size(1) * std::max<int64_t>(rows, 1));
  const bool learns = codebook.requires_grad();
  const Tensor squares =
      ops::sum_rows(ops::multiply(difference, difference).reshape({difference.numel(), 1}), {1});
  const Var loss = Var::from_op(
      "commitment", ops::scale(squares, inverse * (beta + (learns ? 1.0 : 0.0))), {k, codebook},
      [=, shape = k.shape(), codebook_shape = codebook.shape()](const Tensor& dy) -> Gradients {
        const double factor = 2 * inverse * dy.item();
        const Tensor dk = ops::scale(difference.reshape(shape), beta * factor);
        if (!learns) return {dk, Tensor()};
        const Tensor repeated =
            ops::matmul(counts, Tensor::full({1, codes.size(1)}, counts.dtype(), 1.0));
        const Tensor pull = ops::add(ops::multiply(repeated, codes), ops::scale(sums, -1.0));
        return {dk, ops::scale(pull, factor).reshape(codebook_shape)};
      });
  return {loss, counts, sums};
}

}  // namespace linea

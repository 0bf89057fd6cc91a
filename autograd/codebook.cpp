#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// x [B,H,N,D] as [B H,N,D]
Tensor merge_batch_heads(const Tensor& x) {
  return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)});
}

}  // namespace

Var quantize(const Var& k, const Tensor& codebook) {
  const Tensor keys = merge_batch_heads(k.value());
  const Tensor y = ops::gather_codes(ops::nearest_code(keys, codebook, 0), codebook, 0);
  return Var::from_op("quantize", y.reshape(k.shape()), {k}, [](const Tensor& dy) { return dy; });
}

// With n numbers in k: dk = 2 beta / n (k - c_z),
// dc_f = 2 / n sum of c_f - k over the keys of code f
Commitment commitment_loss(const Var& k, const Var& codebook, double beta) {
  const Tensor keys = merge_batch_heads(k.value()), codes = codebook.value();
  const Tensor nearest = ops::nearest_code(keys, codes, 0);
  const Tensor difference =
      ops::add(keys, ops::scale(ops::gather_codes(nearest, codes, 0), -1.0));  // k - c_z
  const auto [counts, sums] = ops::sum_by_code(keys, nearest, codes.shape());
  const double inverse = 1.0 / static_cast<double>(keys.size(0) * keys.size(1));
  const bool learns = codebook.requires_grad();
  const Tensor squares =
      ops::sum_rows(ops::multiply(difference, difference).reshape({difference.numel(), 1}), {1});
  const Var loss = Var::from_op(
      "commitment", ops::scale(squares, inverse * (beta + (learns ? 1.0 : 0.0))), {k, codebook},
      [=, counts = counts, sums = sums, shape = k.shape()](const Tensor& dy) -> Gradients {
        const double factor = 2 * inverse * dy.item();
        const Tensor dk = ops::scale(difference.reshape(shape), beta * factor);
        if (!learns) return {dk, Tensor()};
        const Tensor repeated =  // counts as [H F, D]
            ops::matmul(counts.reshape({counts.numel(), 1}),
                        Tensor::full({1, codes.size(2)}, counts.dtype(), 1.0));
        const Tensor pull =
            ops::add(ops::multiply(repeated.reshape(codes.shape()), codes), ops::scale(sums, -1.0));
        return {dk, ops::scale(pull, factor)};
      });
  return {loss, counts, sums};
}

}  // namespace linea

#include "nn/quadratic.h"

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// y = x where the key exists, `value` elsewhere; dx = dy there, 0 elsewhere. Through the host: an
// oracle.
Tensor select_valid(const Tensor& x, const std::vector<int32_t>& valid, double value) {
  std::vector<double> values = x.to_doubles();
  const int64_t N = x.size(-1), per_sequence = x.numel() / x.size(0);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t place = static_cast<int64_t>(i);
    if (place % N >= valid[static_cast<size_t>(place / per_sequence)]) values[i] = value;
  }
  if (x.dtype() == DType::f64) return Tensor::from(values, x.shape());
  return Tensor::from(std::vector<float>(values.begin(), values.end()), x.shape());
}

}  // namespace

Var hide_unseen(const Var& scores, const AttentionMask& mask, double value) {
  const Var seen = mask.causal ? mask_causal(scores, value) : scores;
  if (!mask.valid.defined()) return seen;
  const std::vector<int32_t> valid = mask.valid.to_vector<int32_t>();
  return Var::from_op("mask_padding", select_valid(seen.value(), valid, value), {seen},
                      [valid](const Tensor& dy) -> std::vector<Gradient> {
                        return {select_valid(dy, valid, 0.0)};
                      });
}

}  // namespace linea

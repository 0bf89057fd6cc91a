#include "nn/attention/slots.h"

#include <cmath>

#include "autograd/ops.h"

namespace linea {

void BidirectionalAttention::refuse() const {
  fail(ErrorKind::usage, "`attention` {} has no causal form: {}", options_.name,
       traits_.not_causal);
}
std::unique_ptr<AttentionState> BidirectionalAttention::start(int64_t, DType) const { refuse(); }
Tensor BidirectionalAttention::step(AttentionState&, const AttentionInputs&) const { refuse(); }
void BidirectionalAttention::require_bidirectional(const AttentionMask& mask) const {
  if (mask.causal) refuse();
}

Var normal_parameter(const AttentionOptions& options, const Shape& shape, double stddev,
                     uint64_t number) {
  std::vector<double> values;
  const int64_t each = shape.numel() / std::max<int64_t>(shape[0], 1);
  for (int64_t head = 0; head < shape[0]; ++head) {
    const RandomStream stream{options.seed, Purpose::features,
                              static_cast<uint32_t>(options.layer * options.heads + head), number};
    for (int64_t i = 0; i < each; ++i)
      values.push_back(stddev * random_normal(stream, static_cast<uint64_t>(i)));
  }
  const Tensor result(shape, options.dtype);
  write_values(values, result);
  return Var(result, true);
}

Var identity_parameter(const AttentionOptions& options, int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t i = 0; i < options.heads * rows; ++i)
    for (int64_t j = 0; j < columns; ++j) values.push_back(i % rows == j ? 1 : 0);
  return Var(Tensor::from(values, {options.heads, rows, columns}, options.dtype), true);
}

Var scaled_scores(const Var& q, const Var& k) {
  return scale(matmul(q, k, false, true), 1 / std::sqrt(static_cast<double>(q.size(-1))));
}

AttentionFlops slot_flops(int64_t slots, int64_t key_size, int64_t value_size) {
  const auto key = static_cast<double>(2 * slots * key_size),
             value = static_cast<double>(2 * slots * value_size);
  return {key + value, 4 * key + 3 * value};
}

}  // namespace linea

#include "nn/attention/slots.h"

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
  const Tensor result(shape, options.dtype);
  for (int64_t head = 0; head < shape[0]; ++head)
    write_normal({options.seed, Purpose::features,
                  static_cast<uint32_t>(options.layer * options.heads + head), number},
                 stddev, result.select(head));
  return Var(result, true);
}

Var identity_parameter(const AttentionOptions& options, int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t i = 0; i < options.heads * rows; ++i)
    for (int64_t j = 0; j < columns; ++j) values.push_back(i % rows == j ? 1 : 0);
  return Var(Tensor::from(values, {options.heads, rows, columns}, options.dtype), true);
}

AttentionFlops slot_flops(int64_t slots, int64_t key_size, int64_t value_size) {
  return softmax_flops({.key_size = key_size, .value_size = value_size},
                       static_cast<double>(slots));
}

}  // namespace linea

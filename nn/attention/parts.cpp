#include "nn/attention/parts.h"

#include <cmath>

#include "autograd/ops.h"

namespace linea {

Var scaled_scores(const Var& q, const Var& k) {
  return scale(matmul(q, k, false, true), 1 / std::sqrt(static_cast<double>(q.size(-1))));
}

AttentionFlops softmax_flops(const AttentionOptions& options, double keys) {
  const double key = 2 * keys * static_cast<double>(options.key_size),
               value = 2 * keys * static_cast<double>(options.value_size);
  return {key + value, 4 * key + 3 * value};
}

KeySlots key_slots(const AttentionOptions& options, int64_t batch, int64_t slots, DType dtype) {
  return {{batch, options.heads, slots, options.key_size},
          {batch, options.heads, slots, options.value_size},
          dtype};
}

void write_normal(const RandomStream& stream, double stddev, const Tensor& into) {
  std::vector<double> values;
  for (int64_t n = 0; n < into.numel(); ++n)
    values.push_back(stddev * random_normal(stream, static_cast<uint64_t>(n)));
  write_values(values, into);
}

}  // namespace linea

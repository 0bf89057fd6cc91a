#include "nn/attention/parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

double rounded_product(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += double{static_cast<float>(a[i])} * double{static_cast<float>(b[i])};
  return sum;
}

std::vector<int32_t> largest_first(const std::vector<double>& scores, int64_t count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
    return scores[static_cast<size_t>(i)] > scores[static_cast<size_t>(j)];
  });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  return order;
}

void write_normal(const RandomStream& stream, double stddev, const Tensor& into) {
  std::vector<double> values;
  for (int64_t n = 0; n < into.numel(); ++n)
    values.push_back(stddev * random_normal(stream, static_cast<uint64_t>(n)));
  write_values(values, into);
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

}  // namespace linea

#include "nn/parameter.h"

#include "tensor/random.h"

namespace linea {

Var normal_parameter(Parameters& list, const std::string& name, const Shape& shape, double stddev,
                     uint64_t seed) {
  const RandomStream stream{seed, Purpose::init, static_cast<uint32_t>(list.size()), 0};
  const Tensor tensor(shape, DType::f32);  // before the host's copy: its error says what is held
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(stddev * random_normal(stream, i));
  tensor.write(values.data());
  list.push_back({name, Var(tensor, true)});
  return list.back().var;
}

Var constant_parameter(Parameters& list, const std::string& name, const Shape& shape,
                       double value) {
  list.push_back({name, Var(Tensor::full(shape, DType::f32, value), true)});
  return list.back().var;
}

int64_t count_elements(const Parameters& list) {
  int64_t total = 0;
  for (const Parameter& parameter : list) total += parameter.var.value().numel();
  return total;
}

}  // namespace linea

#include "nn/parameter.h"

#include "base/random.h"

namespace linea {
namespace {

// FNV-1a of the name, in the upper half of the stream ids: a model has fewer parameters than 2^31.
uint32_t stream_id_of_name(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash | 0x80000000u;
}

}  // namespace

Var ParameterInit::normal(const std::string& name, const Shape& shape, double stddev, bool optional,
                          int64_t matrices) {
  const RandomStream stream{seed_, Purpose::init,
                            optional ? stream_id_of_name(name) : next_stream_id_, 0};
  const Tensor tensor(shape,
                      DType::f32);  // before the host copy: its error reports the memory in use
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(stddev * random_normal(stream, i));
  tensor.write(values.data());
  add({name, Var(tensor, true), optional, matrices});
  return list_.back().var;
}

Var ParameterInit::constant(const std::string& name, const Shape& shape, double value,
                            bool optional) {
  add({name, Var(Tensor::full(shape, DType::f32, value), true), optional});
  return list_.back().var;
}

void ParameterInit::add(Parameter parameter) {
  if (!parameter.optional) ++next_stream_id_;
  list_.push_back(std::move(parameter));
}

int64_t count_elements(const Parameters& list) {
  int64_t total = 0;
  for (const Parameter& parameter : list) total += parameter.var.value().numel();
  return total;
}

}  // namespace linea

#include "nn/weight_average.h"

#include <algorithm>

#include "tensor/memory_report.h"
#include "tensor/ops.h"

namespace linea {

WeightAverage::WeightAverage(const Model& model, double decay) : of_(model), decay_(decay) {
  require(decay >= 0 && decay < 1, "`ema` is {}; it must be in [0, 1)", decay);
  const MemoryScope scope(MemoryPart::optimizer);
  average_ = make_model(model.config());
  restart();
}

void WeightAverage::restart() {
  for (size_t i = 0; i < of_.parameters().size(); ++i)
    ops::copy_into(of_.parameters()[i].var.value(), average_->parameters()[i].var.value());
  updates_ = 0;
}

// e = d e + (1 - d) p, d = min(decay, (1 + n) / (10 + n)) after n updates: an early average covers
// the last part of a short history, so that the first weights leave it soon. d is rounded first:
// from 1/2 on, both factors are then exact and sum to 1.
void WeightAverage::update() {
  const double n = static_cast<double>(updates_++);
  const double decay = static_cast<float>(std::min(decay_, (1 + n) / (10 + n)));
  for (size_t i = 0; i < of_.parameters().size(); ++i) {
    const Tensor &p = of_.parameters()[i].var.value(), &e = average_->parameters()[i].var.value();
    ops::add_into(ops::scale(e, decay), ops::scale(p, 1 - decay), e);
  }
}

size_t WeightAverage::bytes() const {
  size_t sum = 0;
  for (const Parameter& parameter : average_->parameters()) sum += parameter.var.value().bytes();
  for (const Buffer& buffer : average_->buffers()) sum += buffer.tensor.bytes();
  return sum;
}

Model& WeightAverage::model() {
  const std::vector<Buffer> from = of_.buffers(), to = average_->buffers();
  for (size_t i = 0; i < from.size(); ++i) ops::copy_into(from[i].tensor, to[i].tensor);
  average_->buffers_changed();
  return *average_;
}

}  // namespace linea

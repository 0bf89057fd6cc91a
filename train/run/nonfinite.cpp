#include "train/run/nonfinite.h"

#include <cmath>

#include "tensor/ops.h"

namespace linea {

std::string find_nonfinite(const Model& model, TrainingStep& training_step, int64_t step,
                           int64_t micro_batches, double loss) {
  for (const Parameter& parameter : model.parameters())
    if (const int64_t count = ops::count_nonfinite(parameter.var.value()))
      return fmt::format("{} values of the parameter {} are not finite", count, parameter.name);
  if (!std::isfinite(loss)) {
    try {
      const DetectNonfinite detect;
      for (int64_t i = 0; i < micro_batches; ++i)
        training_step.forward_loss(step * micro_batches + i);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::numeric) return error.what();
      if (error.kind() != ErrorKind::memory) throw;
    }
  }
  bool has_gradients = false;
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.var.grad().defined()) continue;
    has_gradients = true;
    if (const int64_t count = ops::count_nonfinite(parameter.var.grad()))
      return fmt::format("{} values of the gradient of {} are not finite", count, parameter.name);
  }
  return has_gradients ? "the sum of the squared gradients overflows"
                       : "unknown: there are no gradients to inspect";
}

}  // namespace linea

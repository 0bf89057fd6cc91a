#include "train/run/nonfinite.h"

#include <cmath>
#include <vector>

#include "tensor/ops.h"

namespace linea {

namespace {

// The first op of a forward pass over this rank's rows that is not finite; "" where there is none.
std::string find_op(TrainingStep& training_step, int64_t step) {
  try {
    const DetectNonfinite detect;
    for (int64_t i = 0; i < training_step.micro_batches(); ++i) training_step.forward_loss(step, i);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::numeric) return error.what();
    if (error.kind() != ErrorKind::memory) throw;
  }
  return "";
}

}  // namespace

std::string find_nonfinite(const Model& model, TrainingStep& training_step, Ranks& ranks,
                           int64_t step, double loss) {
  for (const Parameter& parameter : model.parameters())
    if (const int64_t count = ops::count_nonfinite(parameter.var.value()))
      return fmt::format("{} values of the parameter {} are not finite", count, parameter.name);
  if (!std::isfinite(loss) && !training_step.has_part()) {  // whose passes wait for one another
    const std::vector<std::string> found =
        ranks.all_gather(find_op(training_step, step), "the search for what is not finite");
    for (size_t rank = 0; rank < found.size(); ++rank)
      if (!found[rank].empty())
        return ranks.alone() ? found[rank]
                             : ranks.name(static_cast<int>(rank)) + ": " + found[rank];
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

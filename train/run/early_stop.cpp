#include "train/run/early_stop.h"

#include <limits>

namespace linea {

int64_t validations_without_improvement(const Validations& validations) {
  const int64_t tokens = min_tokens(validations);
  double lowest = std::numeric_limits<double>::infinity();
  int64_t count = 0;
  for (const auto& [step, validation] : validations) {
    if (validation.tokens != tokens) continue;
    const bool improves = validation.loss < lowest;  // false for NaN
    if (improves) lowest = validation.loss;
    count = improves ? 0 : count + 1;
  }
  return count;
}

}  // namespace linea

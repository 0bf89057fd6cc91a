// --early-stop N: training ends where N validations in a row do not improve.
#pragma once

#include <cstdint>

#include "train/record/metrics.h"

namespace linea {

// How many validations in a row, up to the last one, have no loss below the lowest one before them.
// Those that do not compete (uncompared_steps) do not count.
int64_t validations_without_improvement(const Validations& validations);

// Whether a run ends after these; `patience` 0: never. They alone decide, so that a resumed run
// needs no counter.
inline bool stops_early(const Validations& validations, int64_t patience) {
  return patience > 0 && validations_without_improvement(validations) >= patience;
}

}  // namespace linea

// Which part of a training step's rows a batch has.
#pragma once

#include <cstdint>

#include "base/scoped.h"

namespace linea {

// Rows [first, ...) of the `all` rows of a step, which may be cut into batches and over processes,
// `length` tokens each. Random numbers go by a row's number in its step. all = 0: the batch is the
// whole step.
struct StepRows {
  int64_t first = 0, all = 0, length = 0;
};

// The rows of this thread's batch.
const StepRows& step_rows();
// For its lifetime the batch has these rows.
struct BatchOfStep : Scoped<StepRows> {
  explicit BatchOfStep(const StepRows& rows);
};

}  // namespace linea

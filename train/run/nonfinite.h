// Locates the origin of a loss or gradient norm that is not finite.
#pragma once

#include <cstdint>
#include <string>

#include "nn/model.h"
#include "train/run/training_step.h"

namespace linea {

// Names what is not finite: a parameter, else the first op of a repeated forward pass over the
// step's micro-batches (where the loss is not finite), else a gradient. Each of the ranks looks at
// its own rows, and the lowest that finds an op names it for all.
std::string find_nonfinite(const Model& model, TrainingStep& training_step, Ranks& ranks,
                           int64_t step, double loss);

}  // namespace linea

// Locates the origin of a loss or gradient norm that is not finite.
#pragma once

#include <cstdint>
#include <string>

#include "nn/model.h"
#include "train/run/training_step.h"

namespace linea {

// Names what is not finite: a parameter, else the first op of a repeated forward pass over the
// step's micro-batches (where the loss is not finite), else a gradient.
std::string find_nonfinite(const Model& model, TrainingStep& training_step, int64_t step,
                           int64_t micro_batches, double loss);

}  // namespace linea

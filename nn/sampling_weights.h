// Weights in the form in which they are multiplied: cast to the type of the activations, or packed
// in panels where the device samples from those (context().sizes.panels).
#pragma once

#include <vector>

#include "nn/linear.h"

namespace linea {

// Casts those that are defined and of another dtype, by one launch.
void cast_weights(std::vector<Var*> weights, DType dtype);

// Packs the weights as `dtype` into one allocation, in the order in which a step reads them.
void pack_panels(const std::vector<Linear*>& linears, DType dtype);

}  // namespace linea

// Parameters by name, in the order in which a model lists them: what optimizers and checkpoints
// see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace linea {

struct Parameter {
  std::string name;  // "blocks.0.attention.out.weight"
  Var var;
};
using Parameters = std::vector<Parameter>;

// A new parameter appended to `list`: N(0, stddev^2) by (seed, its place in the list), or a
// constant.
Var normal_parameter(Parameters& list, const std::string& name, const Shape& shape, double stddev,
                     uint64_t seed);
Var constant_parameter(Parameters& list, const std::string& name, const Shape& shape, double value);

int64_t count_elements(const Parameters& list);

}  // namespace linea

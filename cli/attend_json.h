// Arrays of numbers that a person can type: {"q": [[0,0],[0,1]], "k": ...}.
#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace linea::attend {

// Nested arrays, or a number, as f64, in the order of their names. Error: ErrorKind::input for a
// file that is not JSON, rows of unlike lengths, more than four axes, or what is not a number.
std::vector<NamedTensor> read_json_arrays(const std::string& path);

}  // namespace linea::attend

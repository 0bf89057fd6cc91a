// How fast the context's device is at what bounds every model: products of matrices, and reading
// memory.
#pragma once

#include <string>
#include <vector>

#include "tensor/element.h"

namespace linea {

// FLOP/s of square products of `dtype`, the median of those made in `seconds`; of float as the
// context has it (Context::products). On a CPU 2048 wide; on another device as wide as it does
// within a few milliseconds, up to 8192.
double product_rate(DType dtype, double seconds);

// Bytes a second: on a CPU, how fast all threads add up as many bytes as `bytes`, the best of some
// passes; on another device, by the kernel that sums squares, of more than its caches hold.
double read_rate(double bytes);

// Seconds that one of many small kernels takes, which follow one another in recorded work where the
// device records.
double launch_seconds();

// Rates of a CUDA device for `linea info`, a line each; or why it cannot be used.
std::vector<std::string> rates_of_cuda();

}  // namespace linea

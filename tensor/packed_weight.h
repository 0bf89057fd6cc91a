// A weight as the products of a CPU pack it (tensor/cpu/packed/gemm.h).
#pragma once

#include <optional>

#include "tensor/workspace.h"

namespace linea {

// The first product that is given this packs its second factor here, and later ones read it: products by
// one weight, which does not change meanwhile, and by the weight or its transpose alone. One at a time
// writes or reads it. Error: ErrorKind::usage, another factor.
struct PackedWeight {
  const void *weight = nullptr, *kernel = nullptr;
  bool transposed = false;
  std::optional<Workspace<uint32_t>> words;
};

}  // namespace linea

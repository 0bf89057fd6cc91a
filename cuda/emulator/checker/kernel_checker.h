// The checker of programs whose kernels are compiled as `checked`. The hooks reference it, so the
// linker includes it.
#pragma once

#include "cuda/emulator/checker.h"

namespace linea::emulator {

Checker& kernel_checker();

}  // namespace linea::emulator

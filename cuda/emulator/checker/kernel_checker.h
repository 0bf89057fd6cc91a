// The checker of a program whose kernels are compiled as `checked`. The hooks name it, so that the
// linker takes it.
#pragma once

#include "cuda/emulator/checker.h"

namespace linea::emulator {

Checker& kernel_checker();

}  // namespace linea::emulator

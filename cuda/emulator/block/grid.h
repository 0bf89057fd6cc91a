// A kernel's blocks, one after the other.
#pragma once

#include "cuda/emulator/launch.h"

namespace linea::emulator {

void run_grid(const Launch& launch);

}  // namespace linea::emulator

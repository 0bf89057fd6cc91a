// Runs the blocks of a kernel one after another.
#pragma once

#include "cuda/emulator/launch.h"

namespace linea::emulator {

void run_grid(const Launch& launch);

}  // namespace linea::emulator

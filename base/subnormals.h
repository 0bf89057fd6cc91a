// Numbers nearer to 0 than 1.2e-38 (float) or 2.2e-308 (double), with which many processors compute a hundred times as
// slowly. States and gradients that decay over thousands of positions come down to them.
#pragma once

namespace linea {

// From now on this thread, and the threads that it starts, take and give 0 instead of them. On x86-64 and ARM64; else it
// does nothing. The program begins with it; a user of the library may, before the first parallel computation.
void flush_subnormals();

}  // namespace linea

// Included before anything else in each .cu file that g++ compiles: CUDA's keywords, and the
// functions that device code calls. NVIDIA's own host headers give the types and bf16, so that the
// emulator cannot drift from them.
#pragma once

// One block runs at a time, so an array shared by a block may be static. The address sanitizer then
// lays red zones around it. The checker looks for such arrays among thread-local symbols
// (checker/symbols.cpp).
#ifdef LINEA_EMULATOR_CHECKED
#define __shared__ static __thread
#else
#define __shared__ static
#endif
#define __launch_bounds__(...)

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "cuda/emulator/device/atomics.h"
#include "cuda/emulator/device/bits.h"
#include "cuda/emulator/device/collectives.h"
#include "cuda/emulator/device/math.h"
#include "cuda/emulator/launch.h"

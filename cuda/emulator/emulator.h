// Included before anything else in each .cu file that g++ compiles: CUDA's keywords and device
// functions. Types and bf16 come from NVIDIA's host headers, so that the emulator cannot diverge
// from them.
#pragma once

// Only one block runs at a time, so a __shared__ array can be static; the address sanitizer then
// surrounds it with red zones. The checker finds these arrays among the thread-local symbols
// (checker/symbolizer.cpp).
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

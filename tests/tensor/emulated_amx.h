// The kernel of tensor/cpu/packed/amx.cpp on processors without AMX.
#pragma once

#include "tensor/cpu/packed/gemm.h"

namespace linea::cpu {

// null where the compiler is not one for x86-64.
const PackedKernel* emulated_amx();

}  // namespace linea::cpu

// The kernel of float products (float_gemm.cpp); null in the base build.
#pragma once

namespace linea::cpu {
struct Bf16Kernel;
const Bf16Kernel* float_kernel();
}  // namespace linea::cpu

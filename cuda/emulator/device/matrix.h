// Tensor cores: the instructions that cuda/ptx.h wraps; layouts as in the PTX ISA. The last lane that
// arrives does the work for its warp.
#pragma once

#include <cstdint>
#include <source_location>

namespace linea::emulator {

void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, std::source_location location);
void mma_m16n8k8(float* d, const uint32_t* a, const uint32_t* b, std::source_location location);
uint32_t to_tf32(float x);
void ldmatrix(uint32_t* r, bool transposed, const void* row, std::source_location location);

}  // namespace linea::emulator

// Tensor cores: the instructions that cuda/ptx.h wraps, and the tiles of nvcuda::wmma. The last
// lane that arrives does the work for its warp.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <source_location>

namespace linea::emulator {

// ---- instructions; layouts as in the PTX ISA ----

void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, std::source_location location);
void mma_m16n8k8(float* d, const uint32_t* a, const uint32_t* b, std::source_location location);
uint32_t to_tf32(float x);
void ldmatrix(uint32_t* r, int matrices, bool transposed, const void* row,
              std::source_location location);

// ---- tiles of 16 x 16; lane l holds the 8 elements from 8 l on, in row-major order ----

inline constexpr int kTile = 16, kTileElementsPerLane = kTile * kTile / 32;

// `stride`: elements between rows in memory (columns unless `by_rows`).
template <typename T>
void load_tile(T* fragment, const T* from, unsigned stride, bool by_rows,
               std::source_location location);
template <typename T>
void store_tile(T* to, const T* fragment, unsigned stride, bool by_rows,
                std::source_location location);
// d = a b + c
void multiply_tiles(float* d, const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c,
                    std::source_location location);

}  // namespace linea::emulator

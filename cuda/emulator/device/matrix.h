// What a warp does together for tensor cores: the instructions that cuda/ptx.h wraps, and the tiles
// of nvcuda::wmma. The last lane that comes does the work for all.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <source_location>

namespace linea::emulator {

// ---- instructions; layouts as in the PTX ISA ----

void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, std::source_location place);
void mma_m16n8k8(float* d, const uint32_t* a, const uint32_t* b, std::source_location place);
uint32_t to_tf32(float x);
void ldmatrix(uint32_t* r, int matrices, bool transposed, const void* row,
              std::source_location place);

// ---- tiles of 16 x 16, of which each lane holds 8 elements: lane l has those from 8 l on, in
// row-major order ----

inline constexpr int kTile = 16, kTileShare = kTile * kTile / 32;

// Rows (or, unless `by_rows`, columns) lie `stride` elements apart in memory.
template <typename T>
void load_tile(T* share, const T* from, unsigned stride, bool by_rows, std::source_location place);
template <typename T>
void store_tile(T* to, const T* share, unsigned stride, bool by_rows, std::source_location place);
// d = a b + c
void multiply_tiles(float* d, const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c,
                    std::source_location place);

}  // namespace linea::emulator

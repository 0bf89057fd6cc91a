// Instructions that CUDA C++ has no function for, or the emulator none: inline PTX under nvcc, the
// emulator's functions or plain C++ under g++. One wrapper per form of an instruction; layouts as in
// the PTX ISA, "Matrix fragments for mma.m16n8k16" and "mma.m16n8k8".
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <source_location>

#include "tensor/bfloat16.h"

#ifdef LINEA_CUDA_EMULATED
#include "cuda/emulator/device/matrix.h"
#endif

namespace linea::cuda {

// D [16,8] += A [16,16] B [16,8], f32 += bf16, by the 32 lanes of a warp; two bf16 per word.
__device__ __forceinline__ void mma_m16n8k16(
    float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
    std::source_location location = std::source_location::current()) {
#ifdef LINEA_CUDA_EMULATED
  emulator::mma_m16n8k16(d, a, b, location);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// D [16,8] += A [16,8] B [8,8], f32 += TF32, by the 32 lanes of a warp; one element per word.
__device__ __forceinline__ void mma_m16n8k8(
    float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
    std::source_location location = std::source_location::current()) {
#ifdef LINEA_CUDA_EMULATED
  emulator::mma_m16n8k8(d, a, b, location);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Rounds to the nearest TF32, ties away from 0.
__device__ __forceinline__ uint32_t to_tf32(float x) {
#ifdef LINEA_CUDA_EMULATED
  return emulator::to_tf32(x);
#else
  uint32_t word = 0;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word & 0xFFFFE000u;  // the low bits of the result are unspecified
#endif
}

// 2^x and 1 / x with errors below 2^-22, 0 where that is below the smallest normal float.
#ifdef LINEA_CUDA_EMULATED
__device__ __forceinline__ float exp2_approx(float x) { return exp2f(x); }
__device__ __forceinline__ float reciprocal_approx(float x) { return 1.0f / x; }
#else
__device__ __forceinline__ float exp2_approx(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ float reciprocal_approx(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
#endif

// threadIdx.x, read anew at each call: a loop keeps nothing in registers that depends on it.
__device__ __forceinline__ uint32_t thread_read_anew() {
#ifdef LINEA_CUDA_EMULATED
  return threadIdx.x;
#else
  uint32_t x = 0;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
#endif
}

// Two floats as a word of two bf16, the first in its lower half.
__device__ __forceinline__ uint32_t to_bf16_pair(float low, float high) {
#ifdef LINEA_CUDA_EMULATED
  return uint32_t{BFloat16(low).bits} | uint32_t{BFloat16(high).bits} << 16;
#else
  uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

// Loads four matrices [8,8] of 16 bits from shared memory. Lane 8 m + i passes the address of row i of
// matrix m, aligned to 16 bytes; r[m] of lane 4 g + t receives elements 2 t and 2 t + 1 of row g, or
// of column g if transposed.
template <bool kTransposed>
__device__ __forceinline__ void ldmatrix(
    uint32_t (&r)[4], const void* row,
    std::source_location location = std::source_location::current()) {
#ifdef LINEA_CUDA_EMULATED
  emulator::ldmatrix(r, kTransposed, row, location);
#else
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
#endif
}

}  // namespace linea::cuda

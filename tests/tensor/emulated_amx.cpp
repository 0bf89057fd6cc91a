// tensor/cpu/packed/amx.cpp with functions in place of its instructions: those of AMX and of AVX-512,
// as Intel's manual defines them (Software Developer's Manual, volume 2), one number after another.
// They have the names of the intrinsics and are in the kernel's namespace, which is searched first.
#include "tests/tensor/emulated_amx.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <array>
#include <cmath>
#include <cstring>

#include "tensor/bfloat16.h"

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _mm512_shuffle_i32x4
#undef _mm_prefetch
#define _mm_prefetch(from, hint) static_cast<void>(from)  // its hint has a type of the intrinsics

namespace linea::cpu {
namespace {

struct alignas(64) __m512i {
  std::array<uint32_t, 16> words;
};
struct alignas(64) __m512 {
  std::array<float, 16> lanes;
};

// Denormals are zero, on input and output.
float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// The operand of LDTILECFG and the tiles of palette 1. Without a configuration no tile has rows.
struct Tiles {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {};
  uint32_t words[8][16][16] = {};

  int rows(int tile) const { return config.rows[tile]; }
  int columns(int tile) const { return config.row_bytes[tile] / 4; }
};
thread_local Tiles amx;

void _tile_loadconfig(const void* config) {
  amx = {};
  std::memcpy(&amx.config, config, sizeof(amx.config));
}
void _tile_release() { amx = {}; }
void _tile_zero(int tile) { std::memset(amx.words[tile], 0, sizeof(amx.words[tile])); }

void _tile_loadd(int tile, const void* from, int64_t stride) {
  _tile_zero(tile);
  for (int row = 0; row < amx.rows(tile); ++row)
    std::memcpy(amx.words[tile][row], static_cast<const char*>(from) + row * stride,
                amx.config.row_bytes[tile]);
}
void _tile_stored(int tile, void* to, int64_t stride) {
  for (int row = 0; row < amx.rows(tile); ++row)
    std::memcpy(static_cast<char*>(to) + row * stride, amx.words[tile][row],
                amx.config.row_bytes[tile]);
}

// A bf16 number in the upper half of a float.
float upper_half(uint32_t word) {
  const uint32_t half = word & 0xFFFF0000U;
  float x = 0;
  std::memcpy(&x, &half, sizeof(x));
  return flush(x);
}
float even_of(uint32_t pair) { return upper_half(pair << 16); }
float odd_of(uint32_t pair) { return upper_half(pair); }

// TDPBF16PS: for each row m of A, even products of all pairs k in one sum, odd ones in another; the
// two are added, then added to C.
void _tile_dpbf16ps(int c, int a, int b) {
  for (int m = 0; m < amx.rows(c); ++m) {
    float even[16] = {}, odd[16] = {};
    for (int k = 0; k < amx.columns(a); ++k)
      for (int n = 0; n < amx.columns(c); ++n) {
        const uint32_t pair_a = amx.words[a][m][k], pair_b = amx.words[b][k][n];
        even[n] = flush(std::fmaf(even_of(pair_a), even_of(pair_b), even[n]));
        odd[n] = flush(std::fmaf(odd_of(pair_a), odd_of(pair_b), odd[n]));
      }
    for (int n = 0; n < amx.columns(c); ++n) {
      float sum = 0;
      std::memcpy(&sum, &amx.words[c][m][n], sizeof(sum));
      sum = flush(flush(sum) + flush(even[n] + odd[n]));
      std::memcpy(&amx.words[c][m][n], &sum, sizeof(sum));
    }
  }
}

__m512 _mm512_load_ps(const float* from) {
  __m512 x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
__m512 _mm512_maskz_loadu_ps(__mmask16 mask, const float* from) {
  __m512 x = {};
  for (size_t i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0) x.lanes[i] = from[i];
  return x;
}
void _mm512_mask_storeu_ps(float* to, __mmask16 mask, const __m512& x) {
  for (size_t i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0) to[i] = x.lanes[i];
}
void _mm512_store_si512(void* to, const __m512i& x) { std::memcpy(to, &x, sizeof(x)); }
__m512 _mm512_add_ps(const __m512& a, const __m512& b) {
  __m512 sum;
  for (size_t i = 0; i < 16; ++i) sum.lanes[i] = a.lanes[i] + b.lanes[i];
  return sum;
}
__m512i _mm512_setzero_si512() { return {}; }

// VCVTNE2PS2BF16: `low` in the lower half of the result.
__m512i _mm512_cvtne2ps_pbh(const __m512& high, const __m512& low) {
  uint16_t halves[32];
  for (size_t i = 0; i < 16; ++i) {
    halves[i] = BFloat16(flush(low.lanes[i])).bits;
    halves[16 + i] = BFloat16(flush(high.lanes[i])).bits;
  }
  __m512i x;
  std::memcpy(&x, halves, sizeof(x));
  return x;
}

// The numbers at `first` in each quarter of a and b, `count` of each at a time.
__m512i interleaved(const __m512i& a, const __m512i& b, size_t first, size_t count) {
  __m512i x;
  for (size_t i = 0; i < 16; ++i) {
    const __m512i& from = i / count % 2 == 0 ? a : b;
    x.words[i] = from.words[i / 4 * 4 + first + i % 4 / (2 * count) * count + i % count];
  }
  return x;
}
__m512i _mm512_unpacklo_epi32(const __m512i& a, const __m512i& b) {
  return interleaved(a, b, 0, 1);
}
__m512i _mm512_unpackhi_epi32(const __m512i& a, const __m512i& b) {
  return interleaved(a, b, 2, 1);
}
__m512i _mm512_unpacklo_epi64(const __m512i& a, const __m512i& b) {
  return interleaved(a, b, 0, 2);
}
__m512i _mm512_unpackhi_epi64(const __m512i& a, const __m512i& b) {
  return interleaved(a, b, 2, 2);
}

// Two quarters of a, then two of b.
__m512i _mm512_shuffle_i32x4(const __m512i& a, const __m512i& b, unsigned quarters) {
  __m512i x;
  for (size_t i = 0; i < 16; ++i)
    x.words[i] = (i < 8 ? a : b).words[(quarters >> i / 4 * 2 & 3) * 4 + i % 4];
  return x;
}

// The last argument is element 0.
template <typename... Elements>
__m512i _mm512_set_epi16(Elements... elements) {
  const uint16_t given[] = {static_cast<uint16_t>(elements)...};
  uint16_t halves[32];
  for (size_t i = 0; i < 32; ++i) halves[i] = given[31 - i];
  __m512i x;
  std::memcpy(&x, halves, sizeof(x));
  return x;
}
__m512i _mm512_permutexvar_epi16(const __m512i& indices, const __m512i& from) {
  uint16_t at[32], halves[32], result[32];
  std::memcpy(at, &indices, sizeof(at));
  std::memcpy(halves, &from, sizeof(halves));
  for (size_t i = 0; i < 32; ++i) result[i] = halves[at[i] % 32];
  __m512i x;
  std::memcpy(&x, result, sizeof(x));
  return x;
}

}  // namespace
}  // namespace linea::cpu

#ifndef __AMX_BF16__
#define __AMX_BF16__
#endif
#define bf16_amx emulated_amx
#include "tensor/cpu/packed/amx.cpp"
#else
const linea::cpu::PackedKernel* linea::cpu::emulated_amx() { return nullptr; }
#endif

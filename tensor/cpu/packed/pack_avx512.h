// Packing by AVX512-BF16, and stores of sums, for the kernels of the processors that have it.
// Functions of this file must not be shared with files compiled for other processors: they are in an
// unnamed namespace.
#pragma once

#include <immintrin.h>

#include "tensor/cpu/packed/gemm.h"

namespace linea::cpu {
namespace {

inline __mmask16 first_lanes(int64_t count) {
  return count >= 16 ? __mmask16{0xFFFF}
                     : static_cast<__mmask16>((1U << (count > 0 ? count : 0)) - 1);
}

// c becomes the first `count` sums, or has them added.
inline void store(float* c, int64_t count, __m512 sums, bool add) {
  const __mmask16 lanes = first_lanes(count);
  if (add) sums = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, c), sums);
  _mm512_mask_storeu_ps(c, lanes, sums);
}

// The 16 x 16 matrix of 32-bit elements turned: pairs of rows, of pairs, of fours, of eights.
inline void turn(__m512i* v) {
  __m512i w[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    w[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    w[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[4 * i] = _mm512_unpacklo_epi64(w[4 * i], w[4 * i + 2]);
    v[4 * i + 1] = _mm512_unpackhi_epi64(w[4 * i], w[4 * i + 2]);
    v[4 * i + 2] = _mm512_unpacklo_epi64(w[4 * i + 1], w[4 * i + 3]);
    v[4 * i + 3] = _mm512_unpackhi_epi64(w[4 * i + 1], w[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // quarters 0 and 2, then 1 and 3, of four rows
    w[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
    w[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xDD);
    w[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
    w[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xDD);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    v[i] = _mm512_shuffle_i32x4(w[i], w[8 + i], 0x88);
    v[8 + i] = _mm512_shuffle_i32x4(w[i], w[8 + i], 0xDD);
  }
}

// v[i]: the pairs of vector i, of `count` vectors of `inner` elements.
inline void read_along(const float* x, int64_t lead, int64_t count, int64_t inner, __m512i* v) {
  const __mmask16 low = first_lanes(inner), high = first_lanes(inner - 16);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const float* const row = x + i * lead;
    v[i] = i >= count ? _mm512_setzero_si512()
                      : (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, row + 16),
                                                     _mm512_maskz_loadu_ps(low, row));
  }
}

// v[p]: pair p of 16 vectors.
inline void read_across(const float* x, int64_t lead, int64_t count, int64_t inner, __m512i* v) {
  const __mmask16 lanes = first_lanes(count), none = 0;
  const __m512i interleaved =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
#pragma GCC unroll 16
  for (int p = 0; p < 16; ++p) {
    const float* const row = x + 2 * p * lead;
    // The processor foresees no steps as long as `lead`.
    _mm_prefetch(row + kTerms * lead, _MM_HINT_T0);
    _mm_prefetch(row + (kTerms + 1) * lead, _MM_HINT_T0);
    const __m512 even = _mm512_maskz_loadu_ps(2 * p < inner ? lanes : none, row),
                 odd = _mm512_maskz_loadu_ps(2 * p + 1 < inner ? lanes : none, row + lead);
    v[p] = _mm512_permutexvar_epi16(interleaved, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
  }
}

void pack_avx512(const Operand<float>& from, int64_t count, int64_t inner, bool turned,
                 uint32_t* to) {
  const int64_t blocks = (inner + kTerms - 1) / kTerms, groups = (count + kPairs - 1) / kPairs;
  const bool along = from.column == 1;
  // In the order of the source's memory.
  const int64_t outer = along ? groups : blocks, within = along ? blocks : groups;
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < within; ++j) {
      const int64_t group = along ? i : j, block = along ? j : i;
      const int64_t vectors = count - kPairs * group, terms = inner - kTerms * block;
      const float* const x = from.data + kPairs * group * from.row + kTerms * block * from.column;
      __m512i v[16];
      along ? read_along(x, from.row, vectors, terms, v)
            : read_across(x, from.column, vectors, terms, v);
      if (along == turned) turn(v);
      uint32_t* const at = to + (group * blocks + block) * kBlockSize;
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) _mm512_store_si512(at + kPairs * k, v[k]);
    }
}

}  // namespace
}  // namespace linea::cpu

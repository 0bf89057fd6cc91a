// bf16 products by vdpbf16ps, 8 x 32 sums in registers. Compiled for AVX512-BF16.
#include "tensor/cpu/packed/gemm.h"

#ifdef __AVX512BF16__
#include "tensor/cpu/packed/pack_avx512.h"

namespace linea::cpu {
namespace {

__m512bh as_pairs(__m512i x) { return (__m512bh)x; }

// kRows >= rows of columns [col, col + 16 kVectors) of a band.
template <int kRows, int kVectors, bool kTurned>
void band(const PackedProduct& of, int64_t col) {
  constexpr int64_t kRow = kTurned ? 1 : kPairs, kPair = kTurned ? kPairs : 1;
  const int64_t next_group = of.blocks * kBlockSize;
  const uint32_t* const all_b = of.b + col / kPairs * next_group;
  __m512 s[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) s[i][j] = _mm512_setzero_ps();
  for (int64_t p = of.begin; p < of.end;) {
    const uint32_t *a = of.a + p / kPairs * kBlockSize + p % kPairs * kPair,
                   *b = all_b + p * kPairs;
    const int64_t stop = p / kPairs * kPairs + kPairs;  // of the block of A
    for (; p < stop && p < of.end; ++p, a += kPair, b += kPairs) {
      __m512bh bp[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) bp[j] = as_pairs(_mm512_load_si512(b + j * next_group));
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const __m512bh ap = as_pairs(_mm512_set1_epi32(static_cast<int>(a[i * kRow])));
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) s[i][j] = _mm512_dpbf16_ps(s[i][j], ap, bp[j]);
      }
    }
  }
  float* const c = of.c + col;
  const bool whole = of.cols - col >= kPairs * kVectors;  // a masked store costs more
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    if (i >= of.rows) continue;
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      float* const to = c + i * of.ldc + kPairs * j;
      if (whole)
        _mm512_storeu_ps(to, of.add ? _mm512_add_ps(_mm512_loadu_ps(to), s[i][j]) : s[i][j]);
      else
        store(to, of.cols - col - kPairs * j, s[i][j], of.add);
    }
  }
}

template <int kRows>
void multiply_rows(const PackedProduct& of) {
  for (int64_t col = 0; col < of.cols; col += 2 * kPairs) {
    const bool two = of.cols - col > kPairs;
    if (of.turned_a)
      two ? band<kRows, 2, true>(of, col) : band<kRows, 1, true>(of, col);
    else
      two ? band<kRows, 2, false>(of, col) : band<kRows, 1, false>(of, col);
  }
}

void multiply_band(const PackedProduct& of) {
  of.rows <= 4 ? multiply_rows<4>(of) : multiply_rows<8>(of);
}

void multiply(const PackedProduct& of) {
  const int64_t group = of.blocks * kBlockSize;
  for (int64_t col = 0; col < of.cols; col += 2 * kPairs)
    for (int64_t row = 0; row < of.rows; row += 8) {
      const int64_t high = of.rows - row < 8 ? of.rows - row : 8,
                    wide = of.cols - col < 2 * kPairs ? of.cols - col : 2 * kPairs;
      multiply_band({of.a + row / kPairs * group + row % kPairs * kPairs,
                     of.b + col / kPairs * group, false, of.blocks, 0, of.blocks * kPairs, high,
                     wide, of.c + row * of.ldc + col, of.ldc, of.add});
    }
}

// Four interleaved sums: the latency of an addition exceeds the time to load the next pairs.
void multiply_row(const float* x, const uint32_t* b, int64_t blocks, int64_t cols, float* c,
                  bool add) {
  constexpr int kSums = 4;
  const int64_t next_group = cols > kPairs ? blocks * kBlockSize : 0;
  __m512 s[kSums][2];
#pragma GCC unroll 4
  for (int i = 0; i < kSums; ++i) s[i][0] = s[i][1] = _mm512_setzero_ps();
  for (int64_t block = 0; block < blocks; ++block, x += kTerms, b += kBlockSize) {
    alignas(64) uint32_t pairs[kPairs];
    _mm512_store_si512(
        pairs, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + kPairs), _mm512_loadu_ps(x)));
#pragma GCC unroll 16
    for (int p = 0; p < kPairs; ++p) {
      const __m512bh xp = as_pairs(_mm512_set1_epi32(static_cast<int>(pairs[p])));
      __m512* const sums = s[p % kSums];
      sums[0] = _mm512_dpbf16_ps(sums[0], xp, as_pairs(_mm512_load_si512(b + p * kPairs)));
      sums[1] =
          _mm512_dpbf16_ps(sums[1], xp, as_pairs(_mm512_load_si512(b + next_group + p * kPairs)));
    }
  }
  for (int j = 0; j < 2; ++j)
    store(c + kPairs * j, cols - kPairs * j,
          _mm512_add_ps(_mm512_add_ps(s[0][j], s[1][j]), _mm512_add_ps(s[2][j], s[3][j])), add);
}

}  // namespace

const PackedKernel* bf16_avx512() {
  static constexpr PackedKernel kernel = {.isa = "AVX512-BF16",
                                          .fast = true,
                                          .pack = pack_avx512,
                                          .multiply = multiply,
                                          .multiply_band = multiply_band,
                                          .multiply_row = multiply_row};
  return &kernel;
}

}  // namespace linea::cpu
#else
const linea::cpu::PackedKernel* linea::cpu::bf16_avx512() { return nullptr; }
#endif

// bf16 products by vdpbf16ps, a tile of 6 x 64 sums in registers. Compiled for AVX512-BF16.
#include "tensor/cpu/bf16/gemm.h"

#ifdef __AVX512BF16__
#include "tensor/cpu/bf16/pack_avx512.h"

namespace linea::cpu {
namespace {

constexpr int kRows = 6;

__m512bh as_pairs(__m512i x) { return (__m512bh)x; }

// Columns [0, cols) of `kVectors` blocks of B.
template <int kVectors>
void tile(const uint32_t* const* a, const uint32_t* b, int64_t blocks, int64_t rows, int64_t cols,
          float* c, int64_t ldc, bool add) {
  const uint32_t *row0 = a[0], *row1 = a[1], *row2 = a[2], *row3 = a[3], *row4 = a[4], *row5 = a[5];
  const int64_t next_group = blocks * kBlockSize;
  __m512 s[kRows][kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) s[i][j] = _mm512_setzero_ps();
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t p = 0; p < kPairs; ++p) {
      __m512bh bp[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        bp[j] = as_pairs(_mm512_load_si512(b + j * next_group + p * kPairs));
      const auto add_row = [&](__m512* sums, const uint32_t* row) {
        const __m512bh ap = as_pairs(_mm512_set1_epi32(static_cast<int>(row[p])));
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sums[j] = _mm512_dpbf16_ps(sums[j], ap, bp[j]);
      };
      add_row(s[0], row0);
      add_row(s[1], row1);
      add_row(s[2], row2);
      add_row(s[3], row3);
      add_row(s[4], row4);
      add_row(s[5], row5);
    }
    row0 += kBlockSize, row1 += kBlockSize, row2 += kBlockSize;
    row3 += kBlockSize, row4 += kBlockSize, row5 += kBlockSize, b += kBlockSize;
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const __mmask16 lanes = first_lanes(i < rows ? cols - kPairs * j : 0);
      float* const to = c + i * ldc + kPairs * j;
      const __m512 sum = add ? _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), s[i][j]) : s[i][j];
      _mm512_mask_storeu_ps(to, lanes, sum);
    }
}

void multiply(const uint32_t* a, bool, const uint32_t* b, int64_t blocks, int64_t rows,
              int64_t cols, float* c, int64_t ldc, bool add) {
  constexpr decltype(&tile<4>) tiles[] = {tile<1>, tile<2>, tile<3>, tile<4>};
  const int64_t group = blocks * kBlockSize;
  for (int64_t col = 0; col < cols; col += kBf16Columns)
    for (int64_t row = 0; row < rows; row += kRows) {
      const uint32_t* row_of_a[kRows];
      for (int64_t i = 0; i < kRows; ++i) {
        const int64_t in = row + i < rows ? row + i : rows - 1;  // past the last row: any row
        row_of_a[i] = a + in / kPairs * group + in % kPairs * kPairs;
      }
      const int64_t left = cols - col < kBf16Columns ? cols - col : kBf16Columns;
      tiles[(left - 1) / kPairs](row_of_a, b + col / kPairs * group, blocks, rows - row, left,
                                 c + row * ldc + col, ldc, add);
    }
}

}  // namespace

const Bf16Kernel* bf16_avx512() {
  static constexpr Bf16Kernel kernel = {.isa = "AVX512-BF16",
                                        .fast = true,
                                        .pack = pack_avx512,
                                        .multiply = multiply,
                                        .begin = nullptr,
                                        .end = nullptr};
  return &kernel;
}

}  // namespace linea::cpu
#else
const linea::cpu::Bf16Kernel* linea::cpu::bf16_avx512() { return nullptr; }
#endif

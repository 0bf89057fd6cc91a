// bf16 products by AVX2 and FMA, for processors without bf16 instructions: the bits of AVX512-BF16
// at no more than the speed of float. Compiled for AVX2.
#include "tensor/cpu/packed/gemm.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace linea::cpu {
namespace {

constexpr int kRows = 4;

// As BFloat16(x), whose code must not be shared with files compiled for other processors.
uint32_t rounded(float x) {
  uint32_t word = 0;
  __builtin_memcpy(&word, &x, sizeof(word));
  return (x == x ? word + 0x7FFFU + ((word >> 16) & 1U) : word | 0x400000U) >> 16;
}

void pack(const Operand<float>& from, int64_t count, int64_t inner, bool turned, uint32_t* to) {
  const int64_t blocks = (inner + kTerms - 1) / kTerms, groups = (count + kPairs - 1) / kPairs;
  const auto bits = [&](int64_t i, int64_t k) {
    if (i >= count || k >= inner) return uint32_t{0};
    return rounded(from.data[i * from.row + k * from.column]);
  };
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t block = 0; block < blocks; ++block, to += kBlockSize)
      for (int64_t i = 0; i < kPairs; ++i)
        for (int64_t p = 0; p < kPairs; ++p) {
          const int64_t vector = group * kPairs + i, k = block * kTerms + 2 * p;
          to[turned ? p * kPairs + i : i * kPairs + p] = bits(vector, k) | bits(vector, k + 1)
                                                                               << 16;
        }
}

__m256 even(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
__m256 odd(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
}
__m256i load(const uint32_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

// 4 x 16 sums.
void tile(const uint32_t* a, const uint32_t* b, int64_t blocks, float* sums) {
  __m256 s[kRows][2];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) s[i][0] = s[i][1] = _mm256_setzero_ps();
  for (int64_t block = 0; block < blocks; ++block, a += kBlockSize, b += kBlockSize)
    for (int64_t p = 0; p < kPairs; ++p) {
      const __m256i left = load(b + p * kPairs), right = load(b + p * kPairs + 8);
      const __m256 left0 = even(left), left1 = odd(left), right0 = even(right), right1 = odd(right);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const __m256i pair = _mm256_set1_epi32(static_cast<int>(a[i * kPairs + p]));
        const __m256 a0 = even(pair), a1 = odd(pair);
        s[i][0] = _mm256_fmadd_ps(a0, left0, _mm256_fmadd_ps(a1, left1, s[i][0]));
        s[i][1] = _mm256_fmadd_ps(a0, right0, _mm256_fmadd_ps(a1, right1, s[i][1]));
      }
    }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    _mm256_store_ps(sums + i * kPairs, s[i][0]);
    _mm256_store_ps(sums + i * kPairs + 8, s[i][1]);
  }
}

void multiply(const PackedProduct& of) {
  const int64_t group = of.blocks * kBlockSize;
  for (int64_t col = 0; col < of.cols; col += kPairs)
    for (int64_t row = 0; row < of.rows; row += kRows) {
      alignas(64) float sums[kRows * kPairs];
      tile(of.a + row / kPairs * group + row % kPairs * kPairs, of.b + col / kPairs * group,
           of.blocks, sums);
      for (int64_t i = 0; i < kRows && row + i < of.rows; ++i)
        for (int64_t j = 0; j < kPairs && col + j < of.cols; ++j) {
          float& to = of.c[(row + i) * of.ldc + col + j];
          to = of.add ? to + sums[i * kPairs + j] : sums[i * kPairs + j];
        }
    }
}

}  // namespace

const PackedKernel* bf16_fma() {
  static constexpr PackedKernel kernel = {
      .isa = "FMA", .fast = false, .pack = pack, .multiply = multiply};
  return &kernel;
}

}  // namespace linea::cpu
#else
const linea::cpu::PackedKernel* linea::cpu::bf16_fma() { return nullptr; }
#endif

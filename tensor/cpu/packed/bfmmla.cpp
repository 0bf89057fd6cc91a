// bf16 products by bfmmla of ARM64, which adds the products of 2 x 4 and 4 x 2 elements to 2 x 2
// sums; 8 x 8 sums in registers. Compiled for ARMv8.2 with BF16.
#include "tensor/cpu/packed/gemm.h"

#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#include <arm_neon.h>

namespace linea::cpu {
namespace {

// Both factors are packed alike: for each four terms of a block, those of vector 0, of vector 1, ...
constexpr int64_t kFour = 4, kFours = kTerms / kFour;
constexpr int64_t kTile = 8;  // rows and columns of C
constexpr int kTwos = kTile / 2;

// The terms [k, k + 4) of a vector; zeros follow its end.
float32x4_t four(const float* vector, int64_t step, int64_t k, int64_t inner) {
  if (step == 1 && k + kFour <= inner) return vld1q_f32(vector + k);
  float terms[kFour] = {};
  for (int64_t i = 0; i < kFour && k + i < inner; ++i) terms[i] = vector[(k + i) * step];
  return vld1q_f32(terms);
}

void pack(const Operand<float>& from, int64_t count, int64_t inner, bool, uint32_t* to) {
  const int64_t blocks = (inner + kTerms - 1) / kTerms, groups = (count + kPairs - 1) / kPairs;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t block = 0; block < blocks; ++block, to += kBlockSize)
      for (int64_t i = 0; i < kPairs; ++i) {
        const int64_t vector = group * kPairs + i;
        const int64_t rest = vector < count ? inner : 0;
        for (int64_t q = 0; q < kFours; ++q) {
          const float32x4_t terms = four(from.data + vector * from.row * (rest != 0), from.column,
                                         block * kTerms + q * kFour, rest);
          const bfloat16x4_t rounded = vcvt_bf16_f32(terms);
          __builtin_memcpy(to + (q * kPairs + i) * 2, &rounded, sizeof(rounded));
        }
      }
}

bfloat16x8_t two_vectors(const uint32_t* from) { return vreinterpretq_bf16_u32(vld1q_u32(from)); }

// The sums of 8 vectors of a block of A and 8 of B, row by row.
void tile(const uint32_t* a, const uint32_t* b, int64_t blocks, float* sums) {
  float32x4_t s[kTwos][kTwos];  // of rows 2 i, 2 i + 1 and columns 2 j, 2 j + 1
#pragma GCC unroll 4
  for (int i = 0; i < kTwos; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kTwos; ++j) s[i][j] = vdupq_n_f32(0);
  for (int64_t q = 0; q < blocks * kFours; ++q, a += 2 * kPairs, b += 2 * kPairs) {
    bfloat16x8_t right[kTwos];
#pragma GCC unroll 4
    for (int j = 0; j < kTwos; ++j) right[j] = two_vectors(b + 4 * j);
#pragma GCC unroll 4
    for (int i = 0; i < kTwos; ++i) {
      const bfloat16x8_t left = two_vectors(a + 4 * i);
#pragma GCC unroll 4
      for (int j = 0; j < kTwos; ++j) s[i][j] = vbfmmlaq_f32(s[i][j], left, right[j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTwos; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kTwos; ++j) {
      vst1_f32(sums + 2 * i * kTile + 2 * j, vget_low_f32(s[i][j]));
      vst1_f32(sums + (2 * i + 1) * kTile + 2 * j, vget_high_f32(s[i][j]));
    }
}

void multiply(const PackedProduct& of) {
  const int64_t group = of.blocks * kBlockSize;
  for (int64_t col = 0; col < of.cols; col += kTile)
    for (int64_t row = 0; row < of.rows; row += kTile) {
      float sums[kTile * kTile];
      tile(of.a + row / kPairs * group + row % kPairs * 2,
           of.b + col / kPairs * group + col % kPairs * 2, of.blocks, sums);
      for (int64_t i = 0; i < kTile && row + i < of.rows; ++i)
        for (int64_t j = 0; j < kTile && col + j < of.cols; ++j) {
          float& to = of.c[(row + i) * of.ldc + col + j];
          to = of.add ? to + sums[i * kTile + j] : sums[i * kTile + j];
        }
    }
}

}  // namespace

// Not called fast before a processor has been measured: `dtype` auto stays float.
const PackedKernel* bf16_bfmmla() {
  static constexpr PackedKernel kernel = {
      .isa = "BFMMLA", .fast = false, .pack = pack, .multiply = multiply};
  return &kernel;
}

}  // namespace linea::cpu
#else
const linea::cpu::PackedKernel* linea::cpu::bf16_bfmmla() { return nullptr; }
#endif

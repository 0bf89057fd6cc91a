// C = op(A) op(B) of float matrices that are packed first; sums are float. The kernels of bf16 round
// the elements while they pack them: dense layers train by these under --dtype bf16 on a CPU. The
// kernel of float (tensor/cpu/float_gemm.cpp) rounds nothing, and has packed blocks of its own.
//
// A packed factor of bf16 consists of blocks of 16 x 16 pairs. A pair holds elements k and k + 1 (k
// even) of a row of op(A) or of a column of op(B) in 32 bits, k in the lower half. A block of A has
// one row after another, a block of B one k after another; those of BFMMLA, fours of k after another.
// All are padded with zeros, k to 32s.
//
// The sum of an element: blocks of kBf16Block terms, each summed from 0, are added in order. Within
// a block FMA and AVX512-BF16 compute s = fma(a1, b1, s), s = fma(a0, b0, s) for each pair (k odd
// first) and have the same bits where nothing is denormal (AVX512-BF16 reads and writes denormals
// as 0). AMX sums even and odd k of 32 terms separately and adds both. BFMMLA adds the products of a
// pair, then adds that to s, rounds inexact results to odd ones, and takes denormals as 0. The
// number of threads does not affect the bits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tensor/cpu/small_gemm.h"

namespace linea {
struct Context;
struct GemmShape;
}  // namespace linea

namespace linea::cpu {

inline constexpr int64_t kBf16Block = 1024;                    // terms of a block
inline constexpr int64_t kPairs = 16, kTerms = 2 * kPairs;     // of a packed block; also its rows
inline constexpr int64_t kBlockSize = kPairs * kPairs;         // in pairs
inline constexpr int64_t kStripRows = 96, kStripColumns = 64;  // of C that are computed together

// A product whose factors are packed: c [rows,cols] = the sum over the pairs [begin, end), or += where
// `add`. `a`: the first row, in a block whose other rows follow; b: `blocks` blocks for each 16 columns.
// turned_a: A is packed as columns.
struct PackedProduct {
  const uint32_t *a, *b;
  bool turned_a;
  int64_t blocks, begin, end, rows, cols;
  float* c;
  int64_t ldc;
  bool add;
};

struct PackedKernel {
  const char* isa;
  bool fast;                                   // faster than products of float
  int64_t terms = kTerms, block = kBf16Block;  // of a packed block; of a sum
  // Rounds and packs `count` vectors of `inner` elements, the rows of an operand; `turned`: as columns
  // of B.
  void (*pack)(const Operand<float>&, int64_t count, int64_t inner, bool turned, uint32_t* to);
  // All pairs of the blocks. turned_a: the columns of the source are contiguous; kernels of bf16, which
  // pack rows of A even then, do not read it.
  void (*multiply)(const PackedProduct&);
  // Before and after the calls of `multiply` of a thread; may be null.
  void (*begin)() = nullptr, (*end)() = nullptr;
  // Up to 8 rows, for matrices in cache (tensor/cpu/chunk_products.h); null where float is as fast.
  void (*multiply_band)(const PackedProduct&) = nullptr;
  // One row x of floats, rounded here, times up to 32 columns of B: c [cols] = x B, or +=.
  void (*multiply_row)(const float* x, const uint32_t* b, int64_t blocks, int64_t cols, float* c,
                       bool add) = nullptr;
};

// null in the base build, which has no fused multiply-add.
const PackedKernel* float_kernel();
// null where this program was not compiled for the processor's family.
const PackedKernel* bf16_amx();
const PackedKernel* bf16_avx512();
const PackedKernel* bf16_fma();
const PackedKernel* bf16_bfmmla();

// All that this processor runs, the fastest first, and the one in use, null where there is none.
std::vector<const PackedKernel*> bf16_kernels();
const PackedKernel* bf16_kernel();

// Work of a layer besides its product, while the rows are in cache. Either may be empty.
struct PackedLayer {
  // Writes `count` rows of A [rows,inner], from `row` on, to `to`: the product takes those. They are
  // followed by space for 2 numbers a row.
  std::function<void(int64_t row, int64_t count, float* to)> rows_of_a;
  // The sums of these rows and columns of C are complete.
  std::function<void(int64_t row, int64_t rows, int64_t col, int64_t cols)> finish;
};

// shape.alpha is 1 and shape.batch 1; shape.beta is 0 or 1.
void packed_gemm(const Context& ctx, const PackedKernel& kernel, const GemmShape& shape,
                 const float* a, const float* b, float* c, const PackedLayer& layer = {});

}  // namespace linea::cpu

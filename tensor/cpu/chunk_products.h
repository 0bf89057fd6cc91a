// Products of a chunk's matrices: of floats as they are (small_gemm.h), or of factors rounded to bf16
// with float sums, where the fastest kernel of the processor is AVX512-BF16. Rounded factors are packed for
// each product, in blocks on the stack.
#pragma once

#include <algorithm>
#include <type_traits>

#include "tensor/backend.h"
#include "tensor/cpu/chunk_rows.h"
#include "tensor/cpu/packed/gemm.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {

// Rows of a product that are computed together: of the entries that a chunk's rows do not see only
// the corners of a band's blocks are computed, and no product reads more.
inline constexpr int64_t kBand = 8;

// The terms [begin, end) and the columns [first_col, cols) that the rows of a band need.
struct Extent {
  int64_t begin, end, cols, first_col = 0;
};

struct ProductSize {
  int64_t rows, cols, inner;
};

// c = a b, or c += a b where `add`; extent(first, rows): what a band needs; columns before first_col are
// computed, too. A sum is that of packed/gemm.h, in blocks of kBandTerms terms. Without `add` all terms
// are needed.
inline constexpr int64_t kBandTerms = 256;
template <typename ExtentOf>
void multiply_rounded(const ProductSize& size, const Operand<float>& a, const Operand<float>& b,
                      const Strided<float>& c, bool add, const ExtentOf& extent) {
  constexpr int64_t kRows = 64, kCols = 64, kSize = 64 * kBandTerms / 2;
  alignas(64) uint32_t packed_a[kSize], packed_b[kSize];
  const PackedKernel& kernel = *bf16_kernel();
  const Operand<float> columns{b.data, b.column, b.row};
  const bool turned = a.column != 1;
  for (int64_t col = 0; col < size.cols; col += kCols)
    for (int64_t term = 0; term < std::max<int64_t>(size.inner, 1); term += kBandTerms) {
      const int64_t terms = std::min(kBandTerms, size.inner - term);
      const int64_t blocks = (terms + kTerms - 1) / kTerms;
      kernel.pack(columns.at(col, term), std::min(kCols, size.cols - col), terms, true, packed_b);
      for (int64_t row = 0; row < size.rows; row += kRows) {
        kernel.pack(a.at(row, term), std::min(kRows, size.rows - row), terms, turned, packed_a);
        for (int64_t first = row; first < std::min(row + kRows, size.rows); first += kBand) {
          const int64_t count = std::min(kBand, size.rows - first), at = first - row;
          const Extent needed = extent(first, count);
          const int64_t begin = std::max<int64_t>(needed.begin - term, 0),
                        end = std::min(needed.end - term, terms);
          if (add && begin >= end) continue;
          kernel.multiply_band(
              {packed_a + at / kPairs * blocks * kBlockSize + at % kPairs * (turned ? 1 : kPairs),
               packed_b, turned, blocks, begin / 2, (end + 1) / 2, count,
               std::min(kCols, needed.cols - col), c.at(first) + col, c.stride, add || term > 0});
        }
      }
    }
}

// c = a b, or c += a b where `add`, in bands of `band` rows, each of what it needs. Arena: inner cols,
// where the columns of b are not contiguous.
template <typename T, typename ExtentOf>
void multiply_bands(bool rounded, const ProductSize& size, const Operand<T>& a, const Operand<T>& b,
                    const Strided<T>& c, bool add, Arena<T> arena, int64_t band,
                    const ExtentOf& extent) {
  if constexpr (std::is_same_v<T, float>)
    if (rounded) return multiply_rounded(size, a, b, c, add, extent);
  Operand<T> by = b;
  if (b.column != 1) {
    T* const columns = arena.take(size.inner * size.cols);
    transpose(size.cols, size.inner, b.data, b.column, columns, size.cols);
    by = plain<T>(columns, size.cols);
  }
  for (int64_t first = 0; first < size.rows; first += band) {
    const int64_t count = std::min(band, size.rows - first);
    const Extent needed = extent(first, count);
    small_gemm(count, needed.cols - needed.first_col, needed.end - needed.begin,
               a.at(first, needed.begin), by.at(needed.begin, needed.first_col).data, by.row,
               c.at(first) + needed.first_col, c.stride, add);
  }
}

// The whole product.
template <typename T>
void multiply(bool rounded, const ProductSize& size, const Operand<T>& a, const Operand<T>& b,
              const Strided<T>& c, bool add, Arena<T> arena) {
  multiply_bands(rounded, size, a, b, c, add, arena, size.rows, [&](int64_t, int64_t) {
    return Extent{0, size.inner, size.cols};
  });
}

}  // namespace linea::cpu

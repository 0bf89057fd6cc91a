// Products of matrices that are in a core's cache: chunks of an attention. No packing and no
// threads, which cost a BLAS most of its time at these sizes. A tile of C is summed in registers,
// over k in order, then added to C: an element's bits do not depend on the sizes of the product,
// and small terms are not added one by one to a large sum.
#pragma once

#include <cstdint>

namespace linea::cpu {

// a(i,k) = data[i row + k column]: rows, `row` elements apart, or a transposed matrix.
template <typename T>
struct Operand {
  const T* data = nullptr;
  int64_t row = 0, column = 1;

  Operand at(int64_t i, int64_t k) const { return {data + i * row + k * column, row, column}; }
};

template <typename T>
Operand<T> plain(const T* data, int64_t stride) {
  return {data, stride, 1};
}
template <typename T>
Operand<T> transposed(const T* data, int64_t stride) {
  return {data, 1, stride};
}

// The base build has narrow vectors and no fused multiply-add: small_gemm calls BLAS there, which
// detects the processor, and rounds by the sizes of a product.
#if defined(__x86_64__) && !defined(__FMA__)
inline constexpr bool kRoundsBySize = true;
#else
inline constexpr bool kRoundsBySize = false;
#endif

// c[i,j] = sum_k a(i,k) b[k,j], added to c where `add`; ldb and ldc: distances between rows.
template <typename T>
void small_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const T* b, int64_t ldb,
                T* c, int64_t ldc, bool add);

// small_gemm, always by the tiles of this build. bf16 elements of b are converted in registers,
// once for every 8 rows (4 where registers are few).
template <typename T, typename W>
void tile_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const W* b, int64_t ldb,
               T* c, int64_t ldc, bool add);

// y [cols,rows] = x^T, x [rows,cols]; ldx and ldy: distances between rows.
template <typename T>
void transpose(int64_t rows, int64_t cols, const T* x, int64_t ldx, T* y, int64_t ldy);

}  // namespace linea::cpu

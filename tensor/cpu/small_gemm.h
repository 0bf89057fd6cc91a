// Products of matrices that lie in a core's cache already: chunks of an attention. Nothing is
// packed and no thread is started, which is what a BLAS spends most of its time on at these sizes.
// A tile of C is summed in registers, over k in order, and then added to what is there: an
// element's bits do not depend on the sizes of the product, and small terms are never added to a
// large sum one by one.
#pragma once

#include <cstdint>

namespace linea::cpu {

// a(i,k) = data[i row + k column]: a row-major matrix, or one read transposed.
template <typename T>
struct Operand {
  const T* data;
  int64_t row, column;
};

template <typename T>
Operand<T> plain(const T* data, int64_t stride) {
  return {data, stride, 1};
}
template <typename T>
Operand<T> transposed(const T* data, int64_t stride) {
  return {data, 1, stride};
}

// c[i,j] = sum_k a(i,k) b[k,j], added to what is there where `add`; rows of b and c lie ldb and ldc
// apart. A build for any processor has narrow vectors and no fused multiply-add; there a BLAS,
// which looks at the processor, does this better.
template <typename T>
void small_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const T* b, int64_t ldb,
                T* c, int64_t ldc, bool add);

// The same by the tiles of this build, whatever its vectors. b may be of bf16, which is made T in
// registers, once for each 8 rows (4 where there are few registers).
template <typename T, typename W>
void tile_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const W* b, int64_t ldb,
               T* c, int64_t ldc, bool add);

// y [cols,rows] of x [rows,cols]; rows of y lie `ldy` apart.
template <typename T>
void transpose(int64_t rows, int64_t cols, const T* x, int64_t ldx, T* y, int64_t ldy);

}  // namespace linea::cpu

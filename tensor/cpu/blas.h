// Row-major C = alpha op(A) op(B) + beta C by OpenBLAS, for float and double, on the calling thread
// (tensor/context.cpp).
#pragma once

#include <cblas.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace linea::cpu {

template <typename T>
void blas_gemm(bool transpose_a, bool transpose_b, int64_t rows, int64_t cols, int64_t inner,
               T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c,
               int64_t ldc) {
  const auto gemm = std::get<std::is_same_v<T, double>>(std::pair(&cblas_sgemm, &cblas_dgemm));
  gemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
       transpose_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
       static_cast<blasint>(cols), static_cast<blasint>(inner), alpha, a, static_cast<blasint>(lda),
       b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

// X = L^-1 X or L^-T X; L [N,N] is unit lower triangular, and only the entries below its diagonal
// are read.
template <typename T>
void blas_solve(bool transpose, int64_t N, int64_t M, const T* lower, T* x) {
  const auto solve = std::get<std::is_same_v<T, double>>(std::pair(&cblas_strsm, &cblas_dtrsm));
  solve(CblasRowMajor, CblasLeft, CblasLower, transpose ? CblasTrans : CblasNoTrans, CblasUnit,
        static_cast<blasint>(N), static_cast<blasint>(M), T(1), lower, static_cast<blasint>(N), x,
        static_cast<blasint>(M));
}

}  // namespace linea::cpu

// Row-major C = alpha op(A) op(B) + beta C by OpenBLAS, for float and double. Inside a parallel
// region OpenBLAS built for OpenMP runs on the calling thread only.
#pragma once

#include <cblas.h>

#include <cstdint>

namespace linea::cpu {

inline void blas_gemm(bool transpose_a, bool transpose_b, int64_t rows, int64_t cols, int64_t inner,
                      float alpha, const float* a, int64_t lda, const float* b, int64_t ldb,
                      float beta, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
              static_cast<blasint>(cols), static_cast<blasint>(inner), alpha, a,
              static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c,
              static_cast<blasint>(ldc));
}

inline void blas_gemm(bool transpose_a, bool transpose_b, int64_t rows, int64_t cols, int64_t inner,
                      double alpha, const double* a, int64_t lda, const double* b, int64_t ldb,
                      double beta, double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
              static_cast<blasint>(cols), static_cast<blasint>(inner), alpha, a,
              static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c,
              static_cast<blasint>(ldc));
}

}  // namespace linea::cpu

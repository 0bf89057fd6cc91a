// CBLAS by plain loops, for targets without OpenBLAS. What takes time in a model of linear attention is
// not here: products of float are the project's own tiles (tensor/cpu/float_gemm.cpp).
#include <cstddef>

#include "cblas.h"

namespace {

template <typename T>
void scale(T factor, T* c, int n) {
  if (factor == T(1)) return;
  for (int j = 0; j < n; ++j) c[j] = factor == T(0) ? T(0) : factor * c[j];
}

template <typename T>
void add_scaled(T factor, const T* x, int step, T* c, int n) {
  if (step == 1) {
#pragma omp simd
    for (int j = 0; j < n; ++j) c[j] += factor * x[j];
  } else {
    for (int j = 0; j < n; ++j) c[j] += factor * x[static_cast<ptrdiff_t>(j) * step];
  }
}

// C = alpha op(A) op(B) + beta C: a row of C at a time, by rows of op(B).
template <typename T>
void gemm(bool transpose_a, bool transpose_b, int rows, int cols, int inner, T alpha, const T* a,
          int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  for (ptrdiff_t i = 0; i < rows; ++i) {
    T* const row = c + i * ldc;
    scale(beta, row, cols);
    for (ptrdiff_t k = 0; k < inner; ++k)
      add_scaled(alpha * (transpose_a ? a[k * lda + i] : a[i * lda + k]),
                 transpose_b ? b + k : b + k * ldb, transpose_b ? ldb : 1, row, cols);
  }
}

// X = alpha L^-1 X, or L^-T X: L is unit lower triangular.
template <typename T>
void solve(bool transpose, int rows, int cols, T alpha, const T* lower, int ld, T* x, int ldx) {
  for (ptrdiff_t n = 0; n < rows; ++n) {
    const ptrdiff_t i = transpose ? rows - 1 - n : n;
    scale(alpha, x + i * ldx, cols);
    for (ptrdiff_t m = 0; m < n; ++m) {
      const ptrdiff_t j = transpose ? rows - 1 - m : m;
      add_scaled(-(transpose ? lower[j * ld + i] : lower[i * ld + j]), x + j * ldx, 1, x + i * ldx,
                 cols);
    }
  }
}

}  // namespace

void cblas_sgemm(CBLAS_ORDER, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b,
                 blasint rows, blasint cols, blasint inner, float alpha, const float* a,
                 blasint lda, const float* b, blasint ldb, float beta, float* c, blasint ldc) {
  gemm(transpose_a == CblasTrans, transpose_b == CblasTrans, rows, cols, inner, alpha, a, lda, b,
       ldb, beta, c, ldc);
}

void cblas_dgemm(CBLAS_ORDER, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b,
                 blasint rows, blasint cols, blasint inner, double alpha, const double* a,
                 blasint lda, const double* b, blasint ldb, double beta, double* c, blasint ldc) {
  gemm(transpose_a == CblasTrans, transpose_b == CblasTrans, rows, cols, inner, alpha, a, lda, b,
       ldb, beta, c, ldc);
}

void cblas_strsm(CBLAS_ORDER, CBLAS_SIDE, CBLAS_UPLO, CBLAS_TRANSPOSE transpose, CBLAS_DIAG,
                 blasint rows, blasint cols, float alpha, const float* lower, blasint ld, float* x,
                 blasint ldx) {
  solve(transpose == CblasTrans, rows, cols, alpha, lower, ld, x, ldx);
}

void cblas_dtrsm(CBLAS_ORDER, CBLAS_SIDE, CBLAS_UPLO, CBLAS_TRANSPOSE transpose, CBLAS_DIAG,
                 blasint rows, blasint cols, double alpha, const double* lower, blasint ld,
                 double* x, blasint ldx) {
  solve(transpose == CblasTrans, rows, cols, alpha, lower, ld, x, ldx);
}

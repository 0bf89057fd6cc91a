// The part of CBLAS that Linea calls, for targets without OpenBLAS (web/blas.cpp). Matrices are row-major.
#pragma once

using blasint = int;
enum CBLAS_ORDER { CblasRowMajor = 101 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };
enum CBLAS_UPLO { CblasLower = 122 };
enum CBLAS_DIAG { CblasUnit = 132 };
enum CBLAS_SIDE { CblasLeft = 141 };

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b,
                 blasint rows, blasint cols, blasint inner, float alpha, const float* a,
                 blasint lda, const float* b, blasint ldb, float beta, float* c, blasint ldc);
void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b,
                 blasint rows, blasint cols, blasint inner, double alpha, const double* a,
                 blasint lda, const double* b, blasint ldb, double beta, double* c, blasint ldc);
void cblas_strsm(CBLAS_ORDER order, CBLAS_SIDE side, CBLAS_UPLO half, CBLAS_TRANSPOSE transpose,
                 CBLAS_DIAG diagonal, blasint rows, blasint cols, float alpha, const float* lower,
                 blasint ld, float* x, blasint ldx);
void cblas_dtrsm(CBLAS_ORDER order, CBLAS_SIDE side, CBLAS_UPLO half, CBLAS_TRANSPOSE transpose,
                 CBLAS_DIAG diagonal, blasint rows, blasint cols, double alpha, const double* lower,
                 blasint ld, double* x, blasint ldx);
// 2: threads by OpenMP.
inline int openblas_get_parallel() { return 2; }
inline const char* openblas_get_config() { return "none"; }
inline const char* openblas_get_corename() { return "none"; }

// cuBLAS on OpenBLAS: handles, and matrix products on the handle's stream. Matrices are
// column-major.
#include <cublas_v2.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/emulator/runtime/matrices.h"
#include "cuda/emulator/runtime/stream.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};

namespace linea::emulator {
namespace {

struct Gemm {
  cublasOperation_t transpose_a, transpose_b;
  int rows, columns, inner, batch;
  Matrix a, b, c;
  bool in_double;  // the compute type, and the type of alpha and beta
};

void multiply_in_double(const Gemm& p, double alpha, double beta, int index) {
  cblas_dgemm(CblasColMajor, blas(p.transpose_a), blas(p.transpose_b), p.rows, p.columns, p.inner,
              alpha, static_cast<const double*>(p.a.at(index)), p.a.leading,
              static_cast<const double*>(p.b.at(index)), p.b.leading, beta,
              static_cast<double*>(const_cast<void*>(p.c.at(index))), p.c.leading);
}

void multiply_in_float(const Gemm& p, float alpha, float beta, int index) {
  std::vector<float> storage_a, storage_b, sums;
  const float* a = as_floats(p.a, p.a.at(index), storage_a);
  const float* b = as_floats(p.b, p.b.at(index), storage_b);
  void* to = const_cast<void*>(p.c.at(index));
  float* c = static_cast<float*>(to);
  if (p.c.type != CUDA_R_32F) {
    sums.resize(p.c.span());
    if (beta != 0) as_floats(p.c, to, sums);
    c = sums.data();
  }
  cblas_sgemm(CblasColMajor, blas(p.transpose_a), blas(p.transpose_b), p.rows, p.columns, p.inner,
              alpha, a, p.a.leading, b, p.b.leading, beta, c, p.c.leading);
  if (p.c.type == CUDA_R_32F) return;
  auto* rounded = static_cast<__nv_bfloat16*>(to);
  for (int column = 0; column < p.columns; ++column)
    for (int row = 0; row < p.rows; ++row) {
      const size_t i =
          static_cast<size_t>(column) * static_cast<size_t>(p.c.leading) + static_cast<size_t>(row);
      rounded[i] = __float2bfloat16(sums[i]);
    }
}

void run(const Gemm& p, double alpha, double beta) {
  for (int index = 0; index < p.batch; ++index) {
    check_read(p.a, p.a.at(index));
    check_read(p.b, p.b.at(index));
    arena().check_range(p.c.at(index), p.c.span() * p.c.element(),
                        "a cuBLAS matrix product writes");
    if (beta != 0) check_read(p.c, p.c.at(index));
    if (p.in_double)
      multiply_in_double(p, alpha, beta, index);
    else
      multiply_in_float(p, static_cast<float>(alpha), static_cast<float>(beta), index);
    report_write(p.c, p.c.at(index));
  }
}

bool types_supported(const Gemm& p) {
  const cudaDataType from = p.a.type, to = p.c.type;
  if (from != p.b.type) return false;
  if (p.in_double) return from == CUDA_R_64F && to == CUDA_R_64F;
  return (from == CUDA_R_32F && to == CUDA_R_32F) ||
         (from == CUDA_R_16BF && (to == CUDA_R_16BF || to == CUDA_R_32F));
}

bool operation_supported(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

double scalar(const void* value, bool in_double) {
  return in_double ? *static_cast<const double*>(value) : double{*static_cast<const float*>(value)};
}

cublasStatus_t multiply(cublasHandle_t handle, Gemm p, const void* alpha, const void* beta) {
  const std::lock_guard lock(runtime_mutex());
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (p.rows < 0 || p.columns < 0 || p.inner < 0 || p.batch < 0 || alpha == nullptr ||
      beta == nullptr || !operation_supported(p.transpose_a) || !operation_supported(p.transpose_b))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool transposed_a = p.transpose_a != CUBLAS_OP_N,
             transposed_b = p.transpose_b != CUBLAS_OP_N;
  p.a.rows = transposed_a ? p.inner : p.rows;
  p.a.columns = transposed_a ? p.rows : p.inner;
  p.b.rows = transposed_b ? p.columns : p.inner;
  p.b.columns = transposed_b ? p.inner : p.columns;
  p.c.rows = p.rows;
  p.c.columns = p.columns;
  if (!p.a.fits() || !p.b.fits() || !p.c.fits()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!types_supported(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (p.rows == 0 || p.columns == 0 || p.batch == 0) return CUBLAS_STATUS_SUCCESS;
  Operation operation = [p, alpha, beta] {
    run(p, scalar(alpha, p.in_double), scalar(beta, p.in_double));
  };
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_HOST)  // scalars on the host are read at the call
    operation = [p, a = scalar(alpha, p.in_double), b = scalar(beta, p.in_double)] {
      run(p, a, b);
    };
  const cudaError_t error = issue(handle->stream, NodeKind::kernel, std::move(operation));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (require_device() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

// All products use full precision and need no workspace.
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

// ---- matrix products ----

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k,
                                          const void* alpha, const void* A, cudaDataType type_a,
                                          int lda, long long stride_a, const void* B,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void* beta, void* C, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Gemm gemm{transpose_a,
                  transpose_b,
                  m,
                  n,
                  k,
                  batch,
                  {A, type_a, 0, 0, lda, stride_a},
                  {B, type_b, 0, 0, ldb, stride_b},
                  {C, type_c, 0, 0, ldc, stride_c},
                  compute == CUBLAS_COMPUTE_64F};
  return multiply(handle, gemm, alpha, beta);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* A, cudaDataType type_a, int lda, const void* B,
                            cudaDataType type_b, int ldb, const void* beta, void* C,
                            cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, A, type_a,
                                    lda, 0, B, type_b, ldb, 0, beta, C, type_c, ldc, 0, 1, compute,
                                    algorithm);
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k,
                                         const double* alpha, const double* A, int lda,
                                         long long stride_a, const double* B, int ldb,
                                         long long stride_b, const double* beta, double* C, int ldc,
                                         long long stride_c, int batch) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, A, CUDA_R_64F,
                                    lda, stride_a, B, CUDA_R_64F, ldb, stride_b, beta, C,
                                    CUDA_R_64F, ldc, stride_c, batch, CUBLAS_COMPUTE_64F,
                                    CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transpose_a,
                              cublasOperation_t transpose_b, int m, int n, int k,
                              const float* alpha, const float* A, int lda, const float* B, int ldb,
                              const float* beta, float* C, int ldc) {
  return cublasGemmEx(handle, transpose_a, transpose_b, m, n, k, alpha, A, CUDA_R_32F, lda, B,
                      CUDA_R_32F, ldb, beta, C, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                      CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t transpose_a,
                              cublasOperation_t transpose_b, int m, int n, int k,
                              const double* alpha, const double* A, int lda, const double* B,
                              int ldb, const double* beta, double* C, int ldc) {
  return cublasDgemmStridedBatched(handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, 0, B,
                                   ldb, 0, beta, C, ldc, 0, 1);
}

}  // extern "C"

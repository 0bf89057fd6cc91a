// cuBLAS on OpenBLAS: handles, and matrix products put on the handle's stream. Matrices are
// column-major.
#include <cublas_v2.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/emulator/runtime/matrices.h"
#include "cuda/emulator/runtime/stream.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

namespace linea::emulator {
namespace {

struct Product {
  cublasOperation_t transpose_a, transpose_b;
  int rows, columns, inner, batch;
  Matrix a, b, c;
  bool in_double;  // what is computed, and the type of alpha and beta
};

void multiply_in_double(const Product& p, double alpha, double beta, int number) {
  cblas_dgemm(CblasColMajor, blas(p.transpose_a), blas(p.transpose_b), p.rows, p.columns, p.inner,
              alpha, static_cast<const double*>(p.a.at(number)), p.a.leading,
              static_cast<const double*>(p.b.at(number)), p.b.leading, beta,
              static_cast<double*>(const_cast<void*>(p.c.at(number))), p.c.leading);
}

void multiply_in_float(const Product& p, float alpha, float beta, int number) {
  std::vector<float> storage_a, storage_b, sums;
  const float* a = as_floats(p.a, p.a.at(number), storage_a);
  const float* b = as_floats(p.b, p.b.at(number), storage_b);
  void* to = const_cast<void*>(p.c.at(number));
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

void run(const Product& p, double alpha, double beta) {
  for (int number = 0; number < p.batch; ++number) {
    announce_read(p.a, p.a.at(number));
    announce_read(p.b, p.b.at(number));
    arena().need(p.c.at(number), p.c.span() * p.c.element(), "a matrix product of cuBLAS writes");
    if (beta != 0) announce_read(p.c, p.c.at(number));
    if (p.in_double)
      multiply_in_double(p, alpha, beta, number);
    else
      multiply_in_float(p, static_cast<float>(alpha), static_cast<float>(beta), number);
    announce_write(p.c, p.c.at(number));
  }
}

bool known_types(const Product& p) {
  const cudaDataType from = p.a.type, to = p.c.type;
  if (from != p.b.type) return false;
  if (p.in_double) return from == CUDA_R_64F && to == CUDA_R_64F;
  return (from == CUDA_R_32F && to == CUDA_R_32F) ||
         (from == CUDA_R_16BF && (to == CUDA_R_16BF || to == CUDA_R_32F));
}

bool known_operation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

double scalar(const void* value, bool in_double) {
  return in_double ? *static_cast<const double*>(value) : double{*static_cast<const float*>(value)};
}

cublasStatus_t multiply(cublasHandle_t handle, Product p, const void* alpha, const void* beta) {
  const std::lock_guard lock(runtime_mutex());
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (p.rows < 0 || p.columns < 0 || p.inner < 0 || p.batch < 0 || alpha == nullptr ||
      beta == nullptr || !known_operation(p.transpose_a) || !known_operation(p.transpose_b))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool turned_a = p.transpose_a != CUBLAS_OP_N, turned_b = p.transpose_b != CUBLAS_OP_N;
  p.a.rows = turned_a ? p.inner : p.rows;
  p.a.columns = turned_a ? p.rows : p.inner;
  p.b.rows = turned_b ? p.columns : p.inner;
  p.b.columns = turned_b ? p.inner : p.columns;
  p.c.rows = p.rows;
  p.c.columns = p.columns;
  if (!p.a.fits() || !p.b.fits() || !p.c.fits()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!known_types(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (p.rows == 0 || p.columns == 0 || p.batch == 0) return CUBLAS_STATUS_SUCCESS;
  Operation operation = [p, alpha, beta] {
    run(p, scalar(alpha, p.in_double), scalar(beta, p.in_double));
  };
  if (handle->pointers == CUBLAS_POINTER_MODE_HOST)  // whose numbers are read at the call
    operation = [p, a = scalar(alpha, p.in_double), b = scalar(beta, p.in_double)] {
      run(p, a, b);
    };
  const cudaError_t error = issue(handle->stream, std::move(operation));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (need_device() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
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
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

// All products are exact in their type, and need no memory of the device.
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

const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

// ---- products ----

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k,
                                          const void* alpha, const void* A, cudaDataType type_a,
                                          int lda, long long stride_a, const void* B,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void* beta, void* C, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Product product{transpose_a,
                        transpose_b,
                        m,
                        n,
                        k,
                        batch,
                        {A, type_a, 0, 0, lda, stride_a},
                        {B, type_b, 0, 0, ldb, stride_b},
                        {C, type_c, 0, 0, ldc, stride_c},
                        compute == CUBLAS_COMPUTE_64F};
  return multiply(handle, product, alpha, beta);
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

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k,
                                         const float* alpha, const float* A, int lda,
                                         long long stride_a, const float* B, int ldb,
                                         long long stride_b, const float* beta, float* C, int ldc,
                                         long long stride_c, int batch) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, A, CUDA_R_32F,
                                    lda, stride_a, B, CUDA_R_32F, ldb, stride_b, beta, C,
                                    CUDA_R_32F, ldc, stride_c, batch, CUBLAS_COMPUTE_32F,
                                    CUBLAS_GEMM_DEFAULT);
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
  return cublasSgemmStridedBatched(handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, 0, B,
                                   ldb, 0, beta, C, ldc, 0, 1);
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t transpose_a,
                              cublasOperation_t transpose_b, int m, int n, int k,
                              const double* alpha, const double* A, int lda, const double* B,
                              int ldb, const double* beta, double* C, int ldc) {
  return cublasDgemmStridedBatched(handle, transpose_a, transpose_b, m, n, k, alpha, A, lda, 0, B,
                                   ldb, 0, beta, C, ldc, 0, 1);
}

}  // extern "C"

// Matrix products by cuBLAS, which is column-major: read by columns, a row-major C = op(A) op(B) is
// C^T = op(B)^T op(A)^T, so the factors are swapped and nothing is transposed.
#include <algorithm>

#include "base/error.h"
#include "cuda/blas.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

int size(int64_t value) {
  require(value <= INT32_MAX, "gemm: dimension {} exceeds the limit of cuBLAS", value);
  return static_cast<int>(value);
}

// A batch of products with the given strides.
template <typename T>
void products(Context& ctx, const GemmShape& shape, int64_t batch, const T* a, int64_t stride_a,
              const T* b, int64_t stride_b, T* c, int64_t stride_c) {
  using A = Accumulator<T>;
  const A alpha = static_cast<A>(shape.alpha), beta = static_cast<A>(shape.beta);
  constexpr cudaDataType_t type = BlasTypes<T>::element;
  const int64_t dense_a = shape.transpose_a ? shape.rows : shape.inner;
  const int lead_a = size(shape.lead_a > 0 ? shape.lead_a : dense_a);
  const int lead_c = size(shape.lead_c > 0 ? shape.lead_c : shape.cols);
  const int lead_b = size(shape.transpose_b ? shape.inner : shape.cols);
  const cublasStatus_t status = cublasGemmStridedBatchedEx(
      queue(ctx).blas, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
      shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, size(shape.cols), size(shape.rows),
      size(shape.inner), &alpha, b, type, std::max(lead_b, 1), stride_b, a, type,
      std::max(lead_a, 1), stride_a, &beta, c, type, lead_c, stride_c, size(batch),
      blas_sums<T>(ctx), CUBLAS_GEMM_DEFAULT);
  require(status == CUBLAS_STATUS_SUCCESS,
          "gemm: cuBLAS returned {} for {} products [{},{}] x [{},{}]", static_cast<int>(status),
          batch, shape.rows, shape.inner, shape.inner, shape.cols);
}

}  // namespace

template <typename T>
void gemm(Context& ctx, const GemmShape& asked, const T* a, const T* b, T* c) {
  const GemmShape shape = asked.with_rows_together();
  if (shape.batch == 0 || shape.rows == 0 || shape.cols == 0) return;
  if (shape.period_b == 0)
    return products(ctx, shape, shape.batch, a, shape.stride_a, b, shape.stride_b, c,
                    shape.stride_c);
  // A[i] is multiplied by B[(first_b + i) % period]: one call per B with all of its A's, or one
  // call per cycle through the B's, whichever takes fewer calls.
  const int64_t period = shape.period_b;
  const auto matrix = [&](int64_t i) { return b + (shape.first_b + i) % period * shape.stride_b; };
  if (period < shape.batch / period) {
    for (int64_t i = 0; i < period; ++i)
      products(ctx, shape, (shape.batch - i + period - 1) / period, a + i * shape.stride_a,
               period * shape.stride_a, matrix(i), 0, c + i * shape.stride_c,
               period * shape.stride_c);
    return;
  }
  for (int64_t i = 0; i < shape.batch;) {
    const int64_t run = std::min(shape.batch - i, period - (shape.first_b + i) % period);
    products(ctx, shape, run, a + i * shape.stride_a, shape.stride_a, matrix(i), shape.stride_b,
             c + i * shape.stride_c, shape.stride_c);
    i += run;
  }
}

LINEA_KERNEL_TABLE(MatrixKernels, .gemm = gemm<T>)

}  // namespace linea::cuda

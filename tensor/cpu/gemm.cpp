// Matrix products: one large product uses every thread inside BLAS; many small ones run a product a
// thread.
#include "tensor/cpu/blas.h"
#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

template <typename T>
void gemm(Context& ctx, const GemmShape& shape, const T* a, const T* b, T* c) {
  const int64_t lda = shape.transpose_a ? shape.rows : shape.inner;
  const int64_t ldb = shape.transpose_b ? shape.inner : shape.cols;
  if (shape.rows == 0 || shape.cols == 0) return;
  const auto one = [&](int64_t index, int) {
    const int64_t b_index = shape.period_b > 0 ? (shape.first_b + index) % shape.period_b : index;
    blas_gemm(shape.transpose_a, shape.transpose_b, shape.rows, shape.cols, shape.inner,
              static_cast<T>(shape.alpha), a + index * shape.stride_a, std::max<int64_t>(lda, 1),
              b + b_index * shape.stride_b, std::max<int64_t>(ldb, 1), static_cast<T>(shape.beta),
              c + index * shape.stride_c, shape.cols);
  };
  if (shape.batch >= ctx.threads && shape.batch > 1) {
    parallel_items(ctx, shape.batch, one, shape.rows * shape.cols * shape.inner / 4);
  } else {
    for (int64_t index = 0; index < shape.batch; ++index) one(index, 0);
  }
}

template void gemm(Context&, const GemmShape&, const float*, const float*, float*);
template void gemm(Context&, const GemmShape&, const double*, const double*, double*);

}  // namespace linea::cpu

// The cuBLAS types for each storage type.
#pragma once

#include "cuda/queue.h"
#include "tensor/bfloat16.h"

namespace linea::cuda {

template <typename T>
struct BlasTypes {
  static constexpr bool kDouble = std::is_same_v<T, double>, kHalf = std::is_same_v<T, BFloat16>;
  static constexpr cudaDataType_t scalar = kDouble ? CUDA_R_64F : CUDA_R_32F,
                                  element = kHalf ? CUDA_R_16BF : scalar;
  static constexpr cublasComputeType_t sums = kDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
};

template <typename T>
cublasComputeType_t blas_sums(const Context& ctx) {
  const bool rounded =
      ctx.products == FloatProducts::rounded && BlasTypes<T>::element == CUDA_R_32F;
  return rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : BlasTypes<T>::sums;
}

}  // namespace linea::cuda

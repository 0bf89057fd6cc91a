// The cuBLAS types for each storage type.
#pragma once

#include "cuda/queue.h"
#include "tensor/bfloat16.h"

namespace linea::cuda {

template <typename T>
struct BlasTypes;
template <>
struct BlasTypes<float> {
  static constexpr cudaDataType_t element = CUDA_R_32F, scalar = CUDA_R_32F;
  static constexpr cublasComputeType_t sums = CUBLAS_COMPUTE_32F;
};
template <>
struct BlasTypes<double> {
  static constexpr cudaDataType_t element = CUDA_R_64F, scalar = CUDA_R_64F;
  static constexpr cublasComputeType_t sums = CUBLAS_COMPUTE_64F;
};
template <>
struct BlasTypes<BFloat16> {
  static constexpr cudaDataType_t element = CUDA_R_16BF, scalar = CUDA_R_32F;
  static constexpr cublasComputeType_t sums = CUBLAS_COMPUTE_32F;
};

template <typename T>
cublasComputeType_t blas_sums(const Context& ctx) {
  const bool rounded =
      ctx.products == FloatProducts::rounded && BlasTypes<T>::element == CUDA_R_32F;
  return rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : BlasTypes<T>::sums;
}

}  // namespace linea::cuda

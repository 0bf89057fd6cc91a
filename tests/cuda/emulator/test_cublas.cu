// cuBLAS on OpenBLAS: products of all types and transpositions against sums in double, and
// refusals.
#include <cublas_v2.h>

#include <cmath>

#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

using Half = __nv_bfloat16;

template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr cudaDataType value = CUDA_R_32F;
};
template <>
struct TypeOf<double> {
  static constexpr cudaDataType value = CUDA_R_64F;
};
template <>
struct TypeOf<Half> {
  static constexpr cudaDataType value = CUDA_R_16BF;
};

template <typename T>
std::vector<T> numbers(int count, int period) {
  std::vector<T> result;
  for (int i = 0; i < count; ++i)
    result.push_back(static_cast<T>(static_cast<float>(i * 5 % period - 3)));
  return result;
}

class Cublas : public testing::Test {
 protected:
  Cublas() { EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  ~Cublas() override { cublasDestroy(handle_); }

  static constexpr int m = 6, n = 7, k = 5, batch = 3, lda = 9, ldb = 10, ldc = 8;

  // C[b] = 2 op(A[b]) op(B[b]) + beta C[b], with numbers that bf16 represents exactly.
  template <typename T, typename Out>
  void expect_product(bool transpose_a, bool transpose_b, double beta) {
    const int columns_a = transpose_a ? m : k, columns_b = transpose_b ? k : n;
    const auto a = numbers<T>(lda * columns_a * batch, 7),
               b = numbers<T>(ldb * columns_b * batch, 8);
    const auto c = beta == 0 ? std::vector<Out>(ldc * n * batch, static_cast<Out>(NAN))
                             : numbers<Out>(ldc * n * batch, 6);
    const DeviceArray<T> device_a(a), device_b(b);
    const DeviceArray<Out> device_c(c);
    using Scalar = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Scalar two = 2, factor = static_cast<Scalar>(beta);
    ASSERT_EQ(cublasGemmStridedBatchedEx(
                  handle_, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                  transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &two, device_a.data(),
                  TypeOf<T>::value, lda, lda * columns_a, device_b.data(), TypeOf<T>::value, ldb,
                  ldb * columns_b, &factor, device_c.data(), TypeOf<Out>::value, ldc, ldc * n,
                  batch, std::is_same_v<T, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                  CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    const std::vector<Out> result = device_c.values();
    for (int p = 0; p < batch; ++p)
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          double sum = 0;
          for (int q = 0; q < k; ++q)
            sum += at(a, p * lda * columns_a + (transpose_a ? i * lda + q : q * lda + i)) *
                   at(b, p * ldb * columns_b + (transpose_b ? q * ldb + j : j * ldb + q));
          const int index = p * ldc * n + j * ldc + i;
          const double exact = 2 * sum + (beta == 0 ? 0 : beta * at(c, index));
          EXPECT_EQ(at(result, index), exact);
        }
  }

  template <typename T>
  static double at(const std::vector<T>& values, int i) {
    return static_cast<double>(static_cast<float>(values[static_cast<size_t>(i)]));
  }

  template <typename T, typename Out>
  void expect_products() {
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const double beta : {0.0, 1.0}) expect_product<T, Out>(transpose_a, transpose_b, beta);
  }

  cublasHandle_t handle_ = nullptr;
};

TEST_F(Cublas, MultipliesFloats) { expect_products<float, float>(); }
TEST_F(Cublas, MultipliesDoubles) { expect_products<double, double>(); }
TEST_F(Cublas, MultipliesHalves) { expect_products<Half, Half>(); }
TEST_F(Cublas, MultipliesHalvesToFloats) { expect_products<Half, float>(); }

TEST_F(Cublas, HasTypedVariants) {
  const DeviceArray<float> x(std::vector<float>(16, 1)), y(16);
  const DeviceArray<double> u(std::vector<double>(16, 1)), v(16);
  const DeviceArray<Half> h(numbers<Half>(16, 2)), g(16);
  const float one = 1, zero = 0;
  const double one2 = 1, zero2 = 0;
  const auto none = CUBLAS_OP_N;
  EXPECT_EQ(
      cublasSgemm(handle_, none, none, 4, 4, 4, &one, x.data(), 4, x.data(), 4, &zero, y.data(), 4),
      0);
  EXPECT_EQ(y.values(), std::vector<float>(16, 4));
  EXPECT_EQ(cublasDgemm(handle_, none, none, 4, 4, 4, &one2, u.data(), 4, u.data(), 4, &zero2,
                        v.data(), 4),
            0);
  EXPECT_EQ(v.values(), std::vector<double>(16, 4));
  EXPECT_EQ(cublasDgemmStridedBatched(handle_, none, none, 2, 2, 2, &one2, u.data(), 2, 4, u.data(),
                                      2, 0, &zero2, v.data(), 2, 4, 4),
            0);
  EXPECT_EQ(v.values(), std::vector<double>(16, 2));
  EXPECT_EQ(cublasGemmEx(handle_, none, none, 4, 4, 4, &one, h.data(), CUDA_R_16BF, 4, h.data(),
                         CUDA_R_16BF, 4, &zero, g.data(), CUDA_R_16BF, 4, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT),
            0);
  EXPECT_EQ(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), 0);
  EXPECT_EQ(cublasSetWorkspace(handle_, nullptr, 0), 0);
}

TEST_F(Cublas, ReadsScalarsOnTheDeviceInDevicePointerMode) {
  const DeviceArray<float> x(std::vector<float>(4, 1)), y(4), scalars(std::vector<float>{3, 0});
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, scalars.data(), x.data(), 2,
                        x.data(), 2, scalars.data() + 1, y.data(), 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(y.values(), std::vector<float>(4, 6));
}

TEST_F(Cublas, RunsLateOnItsStream) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  const DeviceArray<float> x(std::vector<float>(4, 1)), y(std::vector<float>(4, 0));
  cublasSetStream(handle_, stream);
  const float one = 1, zero = 0;
  cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, x.data(), 2, x.data(), 2, &zero,
              y.data(), 2);
  EXPECT_EQ(y.values()[0], 0);
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  EXPECT_EQ(y.values()[0], 2);
  cudaStreamDestroy(stream);
}

TEST_F(Cublas, RefusesTooSmallLeadingDimensions) {
  const DeviceArray<float> x(64), y(64);
  const float one = 1, zero = 0;
  const auto product = [&](cublasOperation_t transpose_a, cublasOperation_t transpose_b, int a,
                           int b, int c) {
    return cublasSgemm(handle_, transpose_a, transpose_b, 4, 5, 6, &one, x.data(), a, x.data(), b,
                       &zero, y.data(), c);
  };
  EXPECT_EQ(product(CUBLAS_OP_N, CUBLAS_OP_N, 3, 6, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product(CUBLAS_OP_N, CUBLAS_OP_N, 4, 5, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product(CUBLAS_OP_N, CUBLAS_OP_N, 4, 6, 3), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product(CUBLAS_OP_T, CUBLAS_OP_N, 5, 6, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product(CUBLAS_OP_N, CUBLAS_OP_T, 4, 4, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_STREQ(cublasGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
}

TEST_F(Cublas, OutOfBoundsMatricesAreReported) {
  const auto run = [&] {
    const DeviceArray<float> x(std::vector<float>(16, 1)), y(15);
    const float one = 1, zero = 0;
    cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x.data(), 4, x.data(), 4, &zero,
                y.data(), 4);
    cudaDeviceSynchronize();
  };
  EXPECT_ABORTS(
      run(), "a cuBLAS matrix product writes: 64 bytes at .* are not inside one live allocation");
}

}  // namespace
}  // namespace linea::cuda

// cublasLt on OpenBLAS: products that end with a bias, gelu and what is added, and what it refuses.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cmath>

#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

using Half = __nv_bfloat16;

class CublasLt : public testing::Test {
 protected:
  static constexpr int m = 6, n = 5, k = 4;
  CublasLt() { cublasCreate(&handle_); }
  ~CublasLt() override { cublasDestroy(handle_); }
  cublasLtHandle_t lt() const { return reinterpret_cast<cublasLtHandle_t>(handle_); }

  void describe(cudaDataType type, cublasLtEpilogue_t epilogue, const void* bias) {
    cublasLtMatmulDescInit(&what_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t turned = CUBLAS_OP_T;
    const uint32_t end = epilogue;
    ASSERT_EQ(
        cublasLtMatmulDescSetAttribute(&what_, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned),
        0);
    ASSERT_EQ(
        cublasLtMatmulDescSetAttribute(&what_, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end), 0);
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(&what_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                             sizeof bias),
              0);
    cublasLtMatrixLayoutInit(&a_, type, k, m, k);
    cublasLtMatrixLayoutInit(&b_, type, k, n, k);
    cublasLtMatrixLayoutInit(&d_, type, m, n, m);
    cublasLtMatmulPreferenceInit(&preference_);
  }
  int ways() {
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(lt(), &what_, &a_, &b_, &d_, &d_, &preference_, 1, &way_,
                                   &found);
    return found;
  }
  cublasStatus_t multiply(const void* a, const void* b, const void* c, void* d, float beta) {
    const float one = 1;
    return cublasLtMatmul(lt(), &what_, &one, a, &a_, b, &b_, &beta, c, &d_, d, &d_, &way_.algo,
                          nullptr, 0, nullptr);
  }

  template <typename T>
  static std::vector<T> numbers(int count, int period) {
    std::vector<T> result;
    for (int i = 0; i < count; ++i)
      result.push_back(static_cast<T>(static_cast<float>(i * 5 % period - 3)));
    return result;
  }
  template <typename T>
  static double at(const std::vector<T>& values, int i) {
    return static_cast<double>(static_cast<float>(values[static_cast<size_t>(i)]));
  }

  // D = f(A^T B + beta C + bias) in numbers that bf16 holds, or by gelu, which it rounds.
  template <typename T>
  void expect_product(cudaDataType type, bool with_bias, bool with_gelu, float beta) {
    const auto a = numbers<T>(k * m, 7), b = numbers<T>(k * n, 8), bias = numbers<T>(m, 5),
               c = numbers<T>(m * n, 6);
    const DeviceArray<T> on_a(a), on_b(b), on_bias(bias), on_c(c), on_d(m * n);
    const int epilogue =
        (with_bias ? CUBLASLT_EPILOGUE_BIAS : 0) | (with_gelu ? CUBLASLT_EPILOGUE_GELU : 0);
    describe(type,
             epilogue == 0 ? CUBLASLT_EPILOGUE_DEFAULT : static_cast<cublasLtEpilogue_t>(epilogue),
             on_bias.data());
    ASSERT_EQ(ways(), 1);
    ASSERT_EQ(multiply(on_a.data(), on_b.data(), on_c.data(), on_d.data(), beta),
              CUBLAS_STATUS_SUCCESS);
    const std::vector<T> d = on_d.values();
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double x = beta * at(c, j * m + i) + (with_bias ? at(bias, i) : 0);
        for (int q = 0; q < k; ++q) x += at(a, i * k + q) * at(b, j * k + q);
        if (with_gelu)
          x = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
        EXPECT_NEAR(at(d, j * m + i), x, with_gelu ? 1e-2 * std::abs(x) : 0) << i << " " << j;
      }
  }

  cublasHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t what_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
  cublasLtMatmulPreferenceOpaque_t preference_{};
  cublasLtMatmulHeuristicResult_t way_{};
};

TEST_F(CublasLt, EndsProductsAsItIsTold) {
  for (const bool with_bias : {false, true})
    for (const bool with_gelu : {false, true})
      for (const float beta : {0.0f, 1.0f}) {
        expect_product<float>(CUDA_R_32F, with_bias, with_gelu, beta);
        expect_product<Half>(CUDA_R_16BF, with_bias, with_gelu, beta);
      }
}

TEST_F(CublasLt, KnowsNoDoubles) {
  describe(CUDA_R_64F, CUBLASLT_EPILOGUE_DEFAULT, nullptr);
  EXPECT_EQ(ways(), 0);
}

// What it found relies on the addresses that it was told of: multiples of 256 unless told
// otherwise.
TEST_F(CublasLt, WantsMatricesWhereItWasTold) {
  const DeviceArray<float> a(k * m), b(numbers<float>(k * n + 1, 8)), d(m * n);
  check_cuda(cudaMemset(a.data(), 0, k * m * sizeof(float)), "cudaMemset");
  describe(CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, nullptr);
  ASSERT_EQ(ways(), 1);
  EXPECT_EQ(multiply(a.data(), b.data() + 1, d.data(), d.data(), 0),
            CUBLAS_STATUS_EXECUTION_FAILED);
  const uint32_t four = 4;
  ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(
                &preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &four, sizeof four),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(ways(), 1);
  EXPECT_EQ(multiply(a.data(), b.data() + 1, d.data(), d.data(), 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d.values(), std::vector<float>(m * n, 0));
}

}  // namespace
}  // namespace linea::cuda

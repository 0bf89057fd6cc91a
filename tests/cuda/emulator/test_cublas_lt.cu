// cublasLt on OpenBLAS: products with bias, GELU and accumulation epilogues, and refusals.
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
    cublasLtMatmulDescInit(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const uint32_t flags = epilogue;
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(&description_, CUBLASLT_MATMUL_DESC_TRANSA,
                                             &transposed, sizeof transposed),
              0);
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(&description_, CUBLASLT_MATMUL_DESC_EPILOGUE, &flags,
                                             sizeof flags),
              0);
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(&description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &bias, sizeof bias),
              0);
    cublasLtMatrixLayoutInit(&a_, type, k, m, k);
    cublasLtMatrixLayoutInit(&b_, type, k, n, k);
    cublasLtMatrixLayoutInit(&d_, type, m, n, m);
    cublasLtMatmulPreferenceInit(&preference_);
  }
  int num_algorithms() {
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(lt(), &description_, &a_, &b_, &d_, &d_, &preference_, 1,
                                   &algorithm_, &found);
    return found;
  }
  cublasStatus_t multiply(const void* a, const void* b, const void* c, void* d, float beta) {
    const float one = 1;
    return cublasLtMatmul(lt(), &description_, &one, a, &a_, b, &b_, &beta, c, &d_, d, &d_,
                          &algorithm_.algo, nullptr, 0, nullptr);
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

  // D = f(A^T B + beta C + bias), with numbers that are exact in bf16 unless f is GELU.
  template <typename T>
  void expect_product(cudaDataType type, bool with_bias, bool with_gelu, float beta) {
    const auto a = numbers<T>(k * m, 7), b = numbers<T>(k * n, 8), bias = numbers<T>(m, 5),
               c = numbers<T>(m * n, 6);
    const DeviceArray<T> device_a(a), device_b(b), device_bias(bias), device_c(c), device_d(m * n);
    const int epilogue =
        (with_bias ? CUBLASLT_EPILOGUE_BIAS : 0) | (with_gelu ? CUBLASLT_EPILOGUE_GELU : 0);
    describe(type,
             epilogue == 0 ? CUBLASLT_EPILOGUE_DEFAULT : static_cast<cublasLtEpilogue_t>(epilogue),
             device_bias.data());
    ASSERT_EQ(num_algorithms(), 1);
    ASSERT_EQ(multiply(device_a.data(), device_b.data(), device_c.data(), device_d.data(), beta),
              CUBLAS_STATUS_SUCCESS);
    const std::vector<T> d = device_d.values();
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
  cublasLtMatmulDescOpaque_t description_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
  cublasLtMatmulPreferenceOpaque_t preference_{};
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

TEST_F(CublasLt, AppliesEpilogues) {
  for (const bool with_bias : {false, true})
    for (const bool with_gelu : {false, true})
      for (const float beta : {0.0f, 1.0f}) {
        expect_product<float>(CUDA_R_32F, with_bias, with_gelu, beta);
        expect_product<Half>(CUDA_R_16BF, with_bias, with_gelu, beta);
      }
}

TEST_F(CublasLt, RefusesDoubles) {
  describe(CUDA_R_64F, CUBLASLT_EPILOGUE_DEFAULT, nullptr);
  EXPECT_EQ(num_algorithms(), 0);
}

// An algorithm relies on the alignment it was found for: 256 bytes by default.
TEST_F(CublasLt, RequiresThePreferredAlignment) {
  const DeviceArray<float> a(k * m), b(numbers<float>(k * n + 1, 8)), d(m * n);
  check_cuda(cudaMemset(a.data(), 0, k * m * sizeof(float)), "cudaMemset");
  describe(CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, nullptr);
  ASSERT_EQ(num_algorithms(), 1);
  EXPECT_EQ(multiply(a.data(), b.data() + 1, d.data(), d.data(), 0),
            CUBLAS_STATUS_EXECUTION_FAILED);
  const uint32_t four = 4;
  ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(
                &preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &four, sizeof four),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(num_algorithms(), 1);
  EXPECT_EQ(multiply(a.data(), b.data() + 1, d.data(), d.data(), 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d.values(), std::vector<float>(m * n, 0));
}

}  // namespace
}  // namespace linea::cuda

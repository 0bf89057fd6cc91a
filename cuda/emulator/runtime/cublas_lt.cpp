// cublasLt on OpenBLAS, as far as the backend needs it: D = f(alpha A B + beta C + bias), and the
// input of f where it is asked for, for a single product of float or bf16, computed in float until
// the final rounding. Descriptors are stored in the caller's opaque structures.
#include <cublasLt.h>

#include <cmath>
#include <cstring>

#include "cuda/emulator/runtime/matrices.h"
#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {
namespace {

struct Layout {
  cudaDataType type;
  int rows, columns, leading;
  Matrix of(const void* data) const { return {data, type, rows, columns, leading, 0}; }
};

constexpr uint32_t kStoresInput = CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU;

struct Description {
  cublasOperation_t transpose_a, transpose_b;
  uint32_t epilogue;
  const void* bias;
  void* input;  // of GELU
  int64_t input_leading;
  bool stores_input() const { return (epilogue & kStoresInput) != 0; }
};

// An algorithm found with a preference relies on its alignment.
struct Preference {
  uint32_t alignment[4];  // of A, B, C and D
};

template <typename T>
T& as(void* opaque) {
  return *static_cast<T*>(opaque);
}

struct Product {
  Description description;
  Matrix a, b, c, d;
  float alpha, beta;
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

void run(const Product& p) {
  const bool with_bias = (p.description.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const bool with_gelu = (p.description.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  const Matrix bias{p.description.bias, p.d.type, p.d.rows, 1, p.d.rows, 0};
  const bool stores_input = p.description.stores_input();
  const Matrix input{p.description.input,
                     p.d.type,
                     p.d.rows,
                     p.d.columns,
                     static_cast<int>(p.description.input_leading),
                     0};
  check_read(p.a, p.a.data);
  check_read(p.b, p.b.data);
  if (p.beta != 0) check_read(p.c, p.c.data);
  if (with_bias) check_read(bias, bias.data);
  arena().check_range(p.d.data, p.d.span() * p.d.element(), "a cuBLAS matrix product writes");
  if (stores_input)
    arena().check_range(input.data, input.span() * input.element(), "a cuBLAS epilogue writes");
  std::vector<float> storage_a, storage_b, storage_c, storage_bias, sums(p.d.span());
  if (p.beta != 0) {
    const float* c = as_floats(p.c, p.c.data, storage_c);
    sums.assign(c, c + p.d.span());
  }
  const int inner = p.description.transpose_a == CUBLAS_OP_N ? p.a.columns : p.a.rows;
  cblas_sgemm(CblasColMajor, blas(p.description.transpose_a), blas(p.description.transpose_b),
              p.d.rows, p.d.columns, inner, p.alpha, as_floats(p.a, p.a.data, storage_a),
              p.a.leading, as_floats(p.b, p.b.data, storage_b), p.b.leading, p.beta, sums.data(),
              p.d.leading);
  const float* row_bias = with_bias ? as_floats(bias, bias.data, storage_bias) : nullptr;
  void* to = const_cast<void*>(p.d.data);
  for (int column = 0; column < p.d.columns; ++column)
    for (int row = 0; row < p.d.rows; ++row) {
      const size_t i =
          static_cast<size_t>(column) * static_cast<size_t>(p.d.leading) + static_cast<size_t>(row);
      float x = sums[i] + (with_bias ? row_bias[row] : 0.0f);
      if (stores_input)
        static_cast<__nv_bfloat16*>(
            p.description.input)[column * p.description.input_leading + row] = __float2bfloat16(x);
      if (with_gelu) x = static_cast<float>(gelu(double{x}));
      if (p.d.type == CUDA_R_32F)
        static_cast<float*>(to)[i] = x;
      else
        static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(x);
    }
  report_write(p.d, p.d.data);
  if (stores_input) report_write(input, input.data);
}

bool aligned(const void* data, uint32_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

}  // namespace
}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

// ---- descriptors ----

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t leading) {
  as<Layout>(layout) = {type, static_cast<int>(rows), static_cast<int>(columns),
                        static_cast<int>(leading)};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, size_t,
                                               cublasComputeType_t, cudaDataType_t) {
  as<Description>(description) = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT,
                                  nullptr,     nullptr,     0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& description = as<Description>(opaque);
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(description.input);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(description.input_leading);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t) {
  as<Preference>(preference) = {{256, 256, 256, 256}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  const int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (operand < 0 || operand > 3)
    return CUBLAS_STATUS_SUCCESS;  // no workspace or reduction scheme is needed
  if (bytes != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&as<Preference>(preference).alignment[operand], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// ---- matrix products ----

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = 0;
  if (requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaDataType type = as<Layout>(d).type;
  for (const cublasLtMatrixLayout_t each : {a, b, c})
    if (as<Layout>(each).type != type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (type != CUDA_R_32F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Description& asked = as<Description>(description);
  if (asked.stores_input() &&
      (type != CUDA_R_16BF || asked.input_leading % 8 != 0 || !aligned(asked.input, 16)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (as<Layout>(a).rows == 0 || as<Layout>(b).columns == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  std::memcpy(&results[0].algo, preference, sizeof(Preference));
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  Preference preference{};
  std::memcpy(&preference, algorithm, sizeof preference);
  const void* data[] = {A, B, C, D};
  for (int operand = 0; operand < 4; ++operand)
    if (!aligned(data[operand], preference.alignment[operand]))
      return CUBLAS_STATUS_EXECUTION_FAILED;
  const Product product{as<Description>(description),
                        as<Layout>(a).of(A),
                        as<Layout>(b).of(B),
                        as<Layout>(c).of(C),
                        as<Layout>(d).of(D),
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta)};
  for (const Matrix& matrix : {product.a, product.b, product.c, product.d})
    if (!matrix.fits()) return CUBLAS_STATUS_INVALID_VALUE;
  return issue(stream, NodeKind::kernel, [product] { run(product); }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"

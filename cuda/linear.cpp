// y = residual + f(norm(x) w^T + bias). The norm is a launch of its own. cublasLt fuses bias, GELU
// and residual into the product as far as it can; for the rest, a plain product is followed by
// separate kernels. Rows are read as columns, as in gemm.cpp: y^T = w x^T.
#include <cublasLt.h>

#include <type_traits>

#include "base/error.h"
#include "cuda/blas.h"
#include "cuda/kernel_tables.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

// cublasLt's GELU may be an approximation; only the rounding to bf16 hides that.
template <typename T>
inline constexpr bool kEndsWithGelu = std::is_same_v<T, BFloat16>;

constexpr int kOperands = 4;  // w, x, residual, y

struct Call {
  cublasLtMatmulDescOpaque_t description{};
  cublasLtMatrixLayoutOpaque_t layout[kOperands]{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  bool known = true;  // no setting was refused

  void check(cublasStatus_t status) { known = known && status == CUBLAS_STATUS_SUCCESS; }
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(&description, attribute, &value, sizeof value));
  }
  template <typename Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
  }
};

// The alignment of `data`: the largest power of two up to 256 that divides the address.
uint32_t alignment(const void* data) {
  uint32_t bytes = 256;
  while (reinterpret_cast<uintptr_t>(data) % bytes != 0) bytes /= 2;
  return bytes;
}

// with_input: the GELU's input is an output, too.
uint32_t epilogue_of(bool with_bias, bool with_gelu, bool with_input) {
  if (!with_gelu) return with_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (with_input) return with_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  return with_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
}

// Equal products use the same algorithm, without split sums.
template <typename T>
Call describe(const Context& ctx, const LinearShape& shape, const T* bias, const T* u,
              const void* const (&data)[kOperands]) {
  Call call;
  call.check(cublasLtMatmulDescInit(&call.description, blas_sums<T>(ctx), BlasTypes<T>::scalar));
  call.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (bias != nullptr) call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (u != nullptr) {
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, u);
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.out);
  }
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE,
           epilogue_of(bias != nullptr, shape.gelu && kEndsWithGelu<T>, u != nullptr));
  const auto R = static_cast<uint64_t>(shape.rows), out = static_cast<uint64_t>(shape.out);
  const auto in = static_cast<uint64_t>(shape.in);
  const uint64_t rows[] = {in, in, out, out}, columns[] = {out, R, R, R};
  call.check(cublasLtMatmulPreferenceInit(&call.preference));
  call.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kBlasWorkspace});
  call.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  for (int i = 0; i < kOperands; ++i) {
    call.check(cublasLtMatrixLayoutInit(&call.layout[i], BlasTypes<T>::element, rows[i], columns[i],
                                        static_cast<int64_t>(rows[i])));
    const int attribute = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i;
    call.prefer(static_cast<cublasLtMatmulPreferenceAttributes_t>(attribute), alignment(data[i]));
  }
  return call;
}

// u: where the GELU's input is stored, or null. Returns false if cublasLt has no algorithm; then
// nothing is computed.
template <typename T>
bool in_one(Context& ctx, const LinearShape& shape, const T* x, const T* w, const T* bias,
            const T* residual, T* y, T* u = nullptr) {
  using A = Accumulator<T>;
  // No preference states the alignment of these.
  constexpr uint32_t kAlignment = 16;
  if (shape.in == 0 || (bias != nullptr && alignment(bias) < kAlignment) ||
      (u != nullptr && alignment(u) < kAlignment))
    return false;
  const T* before = residual == nullptr ? y : residual;
  Call call = describe(ctx, shape, bias, u, {w, x, before, y});
  // A cuBLAS handle is a valid cublasLt handle.
  const auto handle = reinterpret_cast<cublasLtHandle_t>(queue(ctx).blas);
  cublasLtMatmulHeuristicResult_t way{};
  int found = 0;
  cublasLtMatrixLayoutOpaque_t* const layout = call.layout;
  if (!call.known ||
      cublasLtMatmulAlgoGetHeuristic(handle, &call.description, &layout[0], &layout[1], &layout[2],
                                     &layout[3], &call.preference, 1, &way,
                                     &found) != CUBLAS_STATUS_SUCCESS ||
      found == 0 || way.state != CUBLAS_STATUS_SUCCESS)
    return false;
  const A one = 1, beta = residual == nullptr ? A(0) : A(1);
  const cublasStatus_t status = cublasLtMatmul(
      handle, &call.description, &one, w, &layout[0], x, &layout[1], &beta, before, &layout[2], y,
      &layout[3], &way.algo, queue(ctx).blas_workspace, kBlasWorkspace, stream(ctx));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  require(status == CUBLAS_STATUS_SUCCESS,
          "linear: cublasLt returned {} for the product [{},{}] x [{},{}]",
          static_cast<int>(status), shape.rows, shape.in, shape.in, shape.out);
  return true;
}

}  // namespace

template <typename T>
void linear(Context& ctx, const LinearShape& shape, const T* x, const NormWeights<T>& norm,
            const T* w, const T* bias, const T* residual, T* y, const GeluInput<T>& u) {
  using A = Accumulator<T>;
  const int64_t n = shape.rows * shape.out;
  if (n == 0) return;
  if (norm.weight != nullptr) {
    const Workspace<T> normalized(ctx, shape.rows * shape.in);
    const Workspace<A> mean(ctx, shape.rows), scale(ctx, shape.rows);
    kernels_of<NormalizationKernels<T>>().layer_norm(ctx, x, norm.weight, norm.bias,
                                                     normalized.data(), mean.data(), scale.data(),
                                                     shape.rows, shape.in);
    return linear<T>(ctx, shape, normalized.data(), {}, w, bias, residual, y, u);
  }
  if (u.same != nullptr) {
    if (kEndsWithGelu<T> && in_one<T>(ctx, shape, x, w, bias, nullptr, y, u.same)) return;
    LinearShape product = shape;
    product.gelu = false;
    linear<T>(ctx, product, x, {}, w, bias, nullptr, u.same, {});
    return kernels_of<ElementwiseKernels<T>>().pointwise(ctx, Pointwise::gelu, u.same, y, n);
  }
  // GELU is applied before the residual is added
  const bool gelu_after = shape.gelu && !(kEndsWithGelu<T> && residual == nullptr);
  if (!gelu_after && in_one(ctx, shape, x, w, bias, residual, y)) return;
  LinearShape product = shape;
  product.gelu = false;
  if (!in_one<T>(ctx, product, x, w, bias, nullptr, y)) {
    kernels_of<MatrixKernels<T>>().gemm(
        ctx, {.transpose_b = true, .rows = shape.rows, .cols = shape.out, .inner = shape.in}, x, w,
        y);
    if (bias != nullptr)
      kernels_of<RowKernels<T>>().add_rows(ctx, y, bias, y, shape.rows, shape.out);
  }
  const ElementwiseKernels<T> elementwise = kernels_of<ElementwiseKernels<T>>();
  if (shape.gelu) elementwise.pointwise(ctx, Pointwise::gelu, y, y, n);
  if (residual != nullptr) elementwise.add(ctx, residual, y, y, n);
}

LINEA_KERNEL_TABLE(LinearKernels, .linear = linear<T>)

}  // namespace linea::cuda

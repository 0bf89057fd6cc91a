// Matrix products. Many small ones: one product for each thread. One of medium size: a strip of C
// for each thread, each a BLAS product of its own. A large one: all threads inside BLAS, where
// threads synchronize after every block that they pack for each other; expensive with few blocks,
// cheaper than packing all of B twice with many. FloatProducts::rounded: products of layers by
// tensor/cpu/bf16/.
#include "tensor/cpu/bf16/gemm.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

constexpr int64_t kAlign = 16;     // strips start at multiples of a vector
constexpr int64_t kMinStrip = 32;  // minimum width of a strip; thinner ones go to BLAS
constexpr int64_t kMinWork = 65536,
                  kMaxWork = 100000000;  // multiplications of a product computed in strips

// Rows [row, row + rows) and columns [col, col + cols) of C.
template <typename T>
void strip(const GemmShape& shape, const T* a, const T* b, T* c, int64_t row, int64_t rows,
           int64_t col, int64_t cols) {
  const int64_t dense_a = std::max<int64_t>(shape.transpose_a ? shape.rows : shape.inner, 1);
  const int64_t lda = shape.lead_a > 0 ? shape.lead_a : dense_a,
                ldc = shape.lead_c > 0 ? shape.lead_c : shape.cols;
  const int64_t ldb = std::max<int64_t>(shape.transpose_b ? shape.inner : shape.cols, 1);
  blas_gemm(shape.transpose_a, shape.transpose_b, rows, cols, shape.inner,
            static_cast<T>(shape.alpha), a + row * (shape.transpose_a ? 1 : lda), lda,
            b + col * (shape.transpose_b ? ldb : 1), ldb, static_cast<T>(shape.beta),
            c + row * ldc + col, ldc);
}

// Divides the longer side of C.
template <typename T>
void in_strips(const Context& ctx, const GemmShape& shape, const T* a, const T* b, T* c) {
  const bool by_rows = shape.rows >= shape.cols;
  const int64_t length = by_rows ? shape.rows : shape.cols, units = (length + kAlign - 1) / kAlign;
  const int64_t work = shape.rows * shape.cols * shape.inner;
  if (length < kMinStrip * ctx.threads || work < kMinWork || work > kMaxWork)
    return strip(shape, a, b, c, 0, shape.rows, 0, shape.cols);
  parallel_ranges(ctx, units, work / units, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kAlign, count = std::min(last * kAlign, length) - begin;
    if (by_rows) {
      strip(shape, a, b, c, begin, count, 0, shape.cols);
    } else {
      strip(shape, a, b, c, 0, shape.rows, begin, count);
    }
  });
}

// Products of attention's heads are exact. Sums that do not fill a block of packed terms are, too.
bool is_rounded(const Context& ctx, const GemmShape& shape) {
  return ctx.products == FloatProducts::rounded && shape.has_one_b() && shape.batch == 1 &&
         shape.alpha == 1 && (shape.beta == 0 || shape.beta == 1) && shape.inner >= kTerms &&
         bf16_kernel() != nullptr;
}

}  // namespace

template <typename T>
void gemm(Context& ctx, const GemmShape& asked, const T* a, const T* b, T* c) {
  const GemmShape shape = asked.with_rows_together();
  if (shape.rows == 0 || shape.cols == 0) return;
  if constexpr (std::is_same_v<T, float>)
    if (is_rounded(ctx, shape)) return bf16_gemm(ctx, *bf16_kernel(), shape, a, b, c);
  const auto matrix_of_b = [&](int64_t index) {
    const int64_t own = shape.period_b > 0 ? (shape.first_b + index) % shape.period_b : index;
    return b + own * shape.stride_b;
  };
  if (shape.batch >= ctx.threads && shape.batch > 1) {
    const auto one = [&](int64_t index, int) {
      strip(shape, a + index * shape.stride_a, matrix_of_b(index), c + index * shape.stride_c, 0,
            shape.rows, 0, shape.cols);
    };
    parallel_items(ctx, shape.batch, shape.rows * shape.cols * shape.inner / 4, one);
    return;
  }
  for (int64_t index = 0; index < shape.batch; ++index)
    in_strips(ctx, shape, a + index * shape.stride_a, matrix_of_b(index),
              c + index * shape.stride_c);
}

// y = residual + f(norm(x) w^T + bias) in one pass over the rows.
void rounded_linear(Context& ctx, const LinearShape& shape, const GemmShape& product,
                    const float* x, const NormWeights<float>& norm, const float* w,
                    const float* bias, const float* residual, float* y) {
  Bf16Layer layer;
  if (norm.weight != nullptr)
    layer.rows_of_a = [&](int64_t row, int64_t count, float* to) {
      float* const mean = to + count * shape.in;
      kernels_of<NormalizationKernels<float>>().layer_norm(
          ctx, x + row * shape.in, norm.weight, norm.bias, to, mean, mean + count, count, shape.in);
    };
  if (bias != nullptr || shape.gelu || residual != nullptr)
    layer.finish = [&](int64_t row, int64_t rows, int64_t col, int64_t cols) {
      const ElementwiseKernels<float> elementwise = kernels_of<ElementwiseKernels<float>>();
      for (int64_t i = row; i < row + rows; ++i) {
        const int64_t at = i * shape.out + col;
        if (bias != nullptr) elementwise.add(ctx, y + at, bias + col, y + at, cols);
        if (shape.gelu) elementwise.pointwise(ctx, Pointwise::gelu, y + at, y + at, cols);
        if (residual != nullptr) elementwise.add(ctx, residual + at, y + at, y + at, cols);
      }
    };
  bf16_gemm(ctx, *bf16_kernel(), product, x, w, y, layer);
}

// Each operation separately, but where factors are rounded.
template <typename T>
void linear(Context& ctx, const LinearShape& shape, const T* x, const NormWeights<T>& norm,
            const T* w, const T* bias, const T* residual, T* y) {
  const GemmShape product{
      .transpose_b = true, .rows = shape.rows, .cols = shape.out, .inner = shape.in};
  if constexpr (std::is_same_v<T, float>)
    if (is_rounded(ctx, product))
      return rounded_linear(ctx, shape, product, x, norm, w, bias, residual, y);
  if (norm.weight != nullptr) {
    const Workspace<T> normalized(ctx, shape.rows * shape.in), mean(ctx, shape.rows),
        scale(ctx, shape.rows);
    kernels_of<NormalizationKernels<T>>().layer_norm(ctx, x, norm.weight, norm.bias,
                                                     normalized.data(), mean.data(), scale.data(),
                                                     shape.rows, shape.in);
    return linear(ctx, shape, normalized.data(), NormWeights<T>{}, w, bias, residual, y);
  }
  const int64_t n = shape.rows * shape.out;
  gemm(ctx, product, x, w, y);
  if (bias != nullptr) kernels_of<RowKernels<T>>().add_rows(ctx, y, bias, y, shape.rows, shape.out);
  const ElementwiseKernels<T> elementwise = kernels_of<ElementwiseKernels<T>>();
  if (shape.gelu) elementwise.pointwise(ctx, Pointwise::gelu, y, y, n);
  if (residual != nullptr) elementwise.add(ctx, residual, y, y, n);
}

template <typename T>
constexpr MatrixKernels<T> kMatrixKernels = {.gemm = gemm<T>};
LINEA_KERNELS(MatrixKernels)

template <typename T>
constexpr LinearKernels<T> kLinearKernels = {.linear = linear<T>};
LINEA_KERNELS(LinearKernels)

}  // namespace linea::cpu

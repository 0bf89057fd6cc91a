// Matrix products. Those of float by the packed kernels of tensor/cpu/packed/ and float_gemm.cpp, which
// have the same bits at any number of threads; FloatProducts::rounded: those of layers with factors
// rounded to bf16. Small ones, those of double, and all of the base build, which has no fused
// multiply-add, by BLAS.
#include "tensor/cpu/packed/gemm.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {
namespace {

// Rows and multiplications of a product that is worth packing: not those of a few sequences that are
// sampled.
constexpr int64_t kMinRows = 8, kMinWork = 65536;

// A product that BLAS computes is cut into blocks of this size, handed out to threads: the bits do
// not depend on their number.
constexpr int64_t kBlasRows = 256, kBlasColumns = 128;

// The kernel of one product of float, null for BLAS. Products of attention's heads are rounded where
// they say so. Sums that do not fill a block of packed terms are not.
const PackedKernel* kernel_of(const Context& ctx, const GemmShape& shape) {
  const bool scales = shape.alpha != 1;
  if (shape.beta != 0 && (shape.beta != 1 || scales)) return nullptr;
  const bool of_layer = shape.has_one_b() && shape.batch == 1 && !scales;
  if (ctx.products == FloatProducts::rounded && (of_layer || shape.rounds_heads) &&
      shape.inner >= kTerms && bf16_kernel() != nullptr)
    return bf16_kernel();
  const bool large = (shape.rows >= kMinRows || shape.transpose_a) &&
                     shape.rows * shape.cols * shape.inner >= kMinWork;
  return large ? float_kernel() : nullptr;
}

// One product.
template <typename T>
void multiply(Context& ctx, const GemmShape& shape, const T* a, const T* b, T* c) {
  const int64_t lda = shape.row_a(), ldc = shape.row_c();
  if constexpr (std::is_same_v<T, float>)
    if (const PackedKernel* kernel = kernel_of(ctx, shape)) {
      PackedLayer layer;
      if (shape.alpha != 1)
        layer.finish = [&](int64_t row, int64_t rows, int64_t col, int64_t cols) {
          for (float* of = c + row * ldc + col; of < c + (row + rows) * ldc; of += ldc)
            for (int64_t j = 0; j < cols; ++j) of[j] *= static_cast<float>(shape.alpha);
        };
      return packed_gemm(ctx, *kernel, shape, a, b, c, layer);
    }
  const int64_t ldb = shape.transpose_b ? shape.inner : shape.cols;
  const int64_t bands = (shape.rows + kBlasRows - 1) / kBlasRows,
                strips = (shape.cols + kBlasColumns - 1) / kBlasColumns;
  const int64_t block_size = std::min(kBlasRows * kBlasColumns, shape.rows * shape.cols);
  parallel_items(ctx, bands * strips, block_size * shape.inner / 8, [&](int64_t block, int) {
    const int64_t row = block / strips * kBlasRows, col = block % strips * kBlasColumns;
    blas_gemm(shape.transpose_a, shape.transpose_b, std::min(kBlasRows, shape.rows - row),
              std::min(kBlasColumns, shape.cols - col), shape.inner, static_cast<T>(shape.alpha),
              a + row * (shape.transpose_a ? 1 : lda), std::max<int64_t>(lda, 1),
              b + col * (shape.transpose_b ? ldb : 1), std::max<int64_t>(ldb, 1),
              static_cast<T>(shape.beta), c + row * ldc + col, ldc);
  });
}

}  // namespace

template <typename T>
void gemm(Context& ctx, const GemmShape& asked, const T* a, const T* b, T* c) {
  const GemmShape shape = asked.with_rows_together();
  if (shape.rows == 0 || shape.cols == 0) return;
  const auto one = [&](int64_t index, int) {
    const int64_t own = shape.period_b > 0 ? (shape.first_b + index) % shape.period_b : index;
    multiply(ctx, shape, a + index * shape.stride_a, b + own * shape.stride_b,
             c + index * shape.stride_c);
  };
  if (shape.batch >= ctx.threads)
    return parallel_items(ctx, shape.batch, shape.rows * shape.cols * shape.inner / 4, one);
  for (int64_t index = 0; index < shape.batch; ++index) one(index, 0);
}

// In one pass over the rows, or without a packed kernel each operation separately.
template <typename T>
void linear(Context& ctx, const LinearShape& shape, const T* x, const NormWeights<T>& norm,
            const T* w, const T* bias, const T* residual, T* y, const GeluInput<T>& u) {
  const GemmShape product{.transpose_b = true,
                          .rows = shape.rows,
                          .cols = shape.out,
                          .inner = shape.in,
                          .packed = shape.packed};
  const ElementwiseKernels<T> elementwise = kernels_of<ElementwiseKernels<T>>();
  const auto layer_norm = kernels_of<NormalizationKernels<T>>().layer_norm;
  // `count` sums, with the bias, from index `at` on
  const auto activate = [&](int64_t at, int64_t count) {
    if (u.same != nullptr) std::copy_n(y + at, count, u.same + at);
    if (u.rounded != nullptr) {
      const CastSpan<T, BFloat16> input{y + at, u.rounded + at, count};
      elementwise.narrow(ctx, &input, 1);
    }
    if (shape.gelu) elementwise.pointwise(ctx, Pointwise::gelu, y + at, y + at, count);
    if (residual != nullptr) elementwise.add(ctx, residual + at, y + at, y + at, count);
  };
  if constexpr (std::is_same_v<T, float>)
    if (const PackedKernel* kernel = kernel_of(ctx, product)) {
      PackedLayer layer;
      if (norm.weight != nullptr)
        layer.rows_of_a = [&](int64_t row, int64_t count, float* to) {
          float* const mean = to + count * shape.in;
          layer_norm(ctx, x + row * shape.in, norm.weight, norm.bias, to, mean, mean + count, count,
                     shape.in);
        };
      if (bias != nullptr || shape.gelu || residual != nullptr)
        layer.finish = [&](int64_t row, int64_t rows, int64_t col, int64_t cols) {
          for (int64_t i = row; i < row + rows; ++i) {
            const int64_t at = i * shape.out + col;
            if (bias != nullptr) elementwise.add(ctx, y + at, bias + col, y + at, cols);
            activate(at, cols);
          }
        };
      return packed_gemm(ctx, *kernel, product, x, w, y, layer);
    }
  if (norm.weight != nullptr) {
    const Workspace<T> normalized(ctx, shape.rows * shape.in), mean(ctx, shape.rows),
        scale(ctx, shape.rows);
    layer_norm(ctx, x, norm.weight, norm.bias, normalized.data(), mean.data(), scale.data(),
               shape.rows, shape.in);
    return linear(ctx, shape, normalized.data(), NormWeights<T>{}, w, bias, residual, y, u);
  }
  gemm(ctx, product, x, w, y);
  if (bias != nullptr) kernels_of<RowKernels<T>>().add_rows(ctx, y, bias, y, shape.rows, shape.out);
  activate(0, shape.rows * shape.out);
}

LINEA_KERNEL_TABLE(MatrixKernels, .gemm = gemm<T>)

LINEA_KERNEL_TABLE(LinearKernels, .linear = linear<T>)

}  // namespace linea::cpu

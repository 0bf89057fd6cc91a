#include "cuda/fused_norm_linear.h"

#include "cuda/fused_norm_rows.h"

namespace linea::cuda {
namespace {

using Product = FusedNormProduct;

// A block computes 64 x 64 of y.
__global__ void __launch_bounds__(kBlockThreads)
    fused_norm_linear_kernel(FusedNormRows of, int64_t out, bool gelu, const BFloat16* w,
                             const BFloat16* bias, BFloat16* y) {
  SharedMemory memory;
  Product product;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * Product::kRows;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * Product::kColumns;
  product.multiply(
      of, first_row,
      [&](int c) { return first_column + c < out ? w + (first_column + c) * of.terms : nullptr; },
      memory);
  product.each_pair([&](int row, int column, const float* sums) {
    const int64_t r = first_row + row;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int64_t c = first_column + column + e;
      if (r >= of.rows || c >= out) continue;
      const float sum = bias == nullptr ? sums[e] : sums[e] + bias[c];
      y[r * out + c] = BFloat16(gelu ? Gelu<float>::value(sum) : sum);
    }
  });
}

}  // namespace

bool fused_norm_linear(Context& ctx, const LinearShape& shape, const BFloat16* x,
                       const NormWeights<BFloat16>& norm, const BFloat16* w, const BFloat16* bias,
                       BFloat16* y) {
  constexpr int64_t kMaxRows = 2048;  // with more rows, a separate norm and cublasLt are faster
  const FusedNormRows of{x, norm, shape.rows, shape.in};
  if (shape.rows > kMaxRows || !can_fuse_norm(of, w)) return false;
  if (Product::bytes(shape.in) > queue(ctx).shared_bytes) return false;
  const auto blocks = [](int64_t n, int64_t each) {
    return static_cast<unsigned>((n + each - 1) / each);
  };
  static size_t allowed = 0;
  allow_shared_bytes(fused_norm_linear_kernel, Product::bytes(shape.in), allowed);
  launch(fused_norm_linear_kernel,
         dim3(blocks(shape.rows, Product::kRows), blocks(shape.out, Product::kColumns)),
         dim3(kBlockThreads), Product::bytes(shape.in), stream(ctx), of, shape.out, shape.gelu, w,
         bias, y);
  return true;
}

}  // namespace linea::cuda

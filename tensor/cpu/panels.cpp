// Weights packed for sampling: panels of 32 columns of W^T, so that a product reads them as one
// stream and packs nothing at each step. bf16 panels have half the bytes; products are computed in
// T, or by AVX512-BF16 with rows that are rounded, too.
#include <type_traits>

#include "tensor/cpu/chunk_products.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {
namespace {

constexpr int64_t kRows = 64;  // rows of x for one task

// Rows of a panel processed at once: they stay in a core's cache, those of bf16 together with their
// conversion to T.
template <typename T, typename W>
constexpr int64_t kInner = std::is_same_v<T, W> ? 256 : 64;

// c = x panel, or c += x panel where `add`, for one row x. Four interleaved sums: the latency of an
// addition exceeds the time to load the next numbers.
template <typename T, typename W>
void multiply_row(int64_t cols, int64_t inner, const T* x, const W* panel, T* c, bool add) {
  constexpr int kSums = 4;
  T sums[kSums][kPanel] = {};
  int64_t k = 0;
  for (; k + kSums <= inner; k += kSums)
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s)
#pragma omp simd
      for (int64_t j = 0; j < kPanel; ++j) sums[s][j] += x[k + s] * T(panel[(k + s) * kPanel + j]);
  for (; k < inner; ++k)
    for (int64_t j = 0; j < kPanel; ++j) sums[0][j] += x[k] * T(panel[k * kPanel + j]);
  for (int64_t j = 0; j < cols; ++j) {
    const T sum = (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]);
    c[j] = add ? c[j] + sum : sum;
  }
}

// c = a b, or c += a b where `add`: `inner` rows of a panel b. With few rows of a, bf16 elements
// are converted as they are used; with more, once, into `space`.
template <typename T, typename W>
void multiply(const ProductSize& size, const Operand<T>& a, const W* b, T* space,
              const Strided<T>& c, bool add) {
  const auto [rows, cols, inner] = size;
  if (rows == 1) {
    multiply_row(cols, inner, a.data, b, c.data, add);
  } else if constexpr (std::is_same_v<T, W>) {
    small_gemm(rows, cols, inner, a, b, kPanel, c.data, c.stride, add);
  } else if (rows <= 8) {
    tile_gemm(rows, cols, inner, a, b, kPanel, c.data, c.stride, add);
  } else {
    std::transform(b, b + inner * kPanel, space, [](W x) { return T(x); });
    small_gemm(rows, cols, inner, a, space, kPanel, c.data, c.stride, add);
  }
}

// Whether bf16 panels are packed as the second factor of tensor/cpu/packed/gemm.h. x is then rounded
// to bf16, too.
template <typename T, typename W>
bool in_pairs(int64_t in) {
  return std::is_same_v<T, float> && std::is_same_v<W, BFloat16> && in % kTerms == 0 &&
         rounds_chunks();
}

// c = x panel, or c += x panel where `add`, for up to kRows rows x.
void multiply_pairs(const ProductSize& size, const float* x, const BFloat16* panel,
                    const Strided<float>& c, bool add) {
  const PackedKernel& kernel = *bf16_kernel();
  const auto [rows, cols, in] = size;
  const auto* pairs = reinterpret_cast<const uint32_t*>(panel);
  if (rows == 1) return kernel.multiply_row(x, pairs, in / kTerms, cols, c.data, add);
  alignas(64) uint32_t packed[kRows * kBandTerms / 2];
  for (int64_t k = 0; k == 0 || k < in; k += kBandTerms) {
    const int64_t terms = std::min(kBandTerms, in - k);
    kernel.pack({x + k, in}, rows, terms, false, packed);
    for (int64_t row = 0; row < rows; row += kBand)
      kernel.multiply_band(
          {packed + (row / kPairs * terms / kTerms * kPairs + row % kPairs) * kPairs,
           pairs + k / 2 * kPairs, false, in / kTerms, 0, terms / 2, std::min(kBand, rows - row),
           cols, c.at(row), c.stride, add || k > 0});
  }
}

}  // namespace

// panels[p,i,j] = w[32 p + j, i]; 0 past the last column.
template <typename T, typename W>
void pack_panels(Context& ctx, const T* w, W* panels, int64_t out, int64_t in) {
  const int64_t count = (out + kPanel - 1) / kPanel;
  parallel_rows(ctx, count, 4 * kPanel * in, [&](int64_t p) {
    if constexpr (std::is_same_v<T, float>)
      if (in_pairs<T, W>(in))
        return bf16_kernel()->pack({w + p * kPanel * in, in}, std::min(kPanel, out - p * kPanel),
                                   in, true, reinterpret_cast<uint32_t*>(panels + p * in * kPanel));
    for (int64_t k = 0; k < in; k += kInner<T, W>) {
      const int64_t rows = std::min(kInner<T, W>, in - k),
                    columns = std::min(kPanel, out - p * kPanel);
      T block[kInner<T, W> * kPanel];
      if (columns < kPanel) std::fill_n(block, rows * kPanel, T(0));
      transpose(columns, rows, w + p * kPanel * in + k, in, block, kPanel);
      std::transform(block, block + rows * kPanel, panels + (p * in + k) * kPanel,
                     [](T x) { return W(x); });
    }
  });
}

template <typename T, typename W>
void panel_gemm(Context& ctx, const T* x, const W* panels, const T* bias, T* y, int64_t R,
                int64_t out, int64_t in) {
  const int64_t count = (out + kPanel - 1) / kPanel, blocks = (R + kRows - 1) / kRows;
  const int64_t cost = std::min(R, kRows) * kPanel * in / 4;
  parallel_rows(ctx, count * blocks, cost, [&](int64_t item) {
    const int64_t p = item / blocks, row = item % blocks * kRows;
    const int64_t rows = std::min(kRows, R - row), columns = std::min(kPanel, out - p * kPanel);
    const Strided<T> to{y + row * out + p * kPanel, out};
    T space[std::is_same_v<T, W> ? 1 : kInner<T, W> * kPanel];
    for (int64_t r = 0; bias != nullptr && r < rows; ++r)
      std::copy_n(bias + p * kPanel, columns, to.at(r));
    if constexpr (std::is_same_v<T, float> && std::is_same_v<W, BFloat16>)
      if (in_pairs<T, W>(in))
        return multiply_pairs({rows, columns, in}, x + row * in, panels + p * in * kPanel, to,
                              bias != nullptr);
    // once even for an empty sum: y is then 0
    for (int64_t k = 0; k == 0 || k < in; k += kInner<T, W>) {
      const int64_t inner = std::min(kInner<T, W>, in - k);
      multiply({rows, columns, inner}, plain(x + row * in + k, in), panels + (p * in + k) * kPanel,
               space, to, bias != nullptr || k > 0);
    }
  });
}

LINEA_KERNEL_TABLE(PanelKernels, .pack_panels = pack_panels<T, T>,
                   .pack_bf16_panels = pack_panels<T, BFloat16>, .panel_gemm = panel_gemm<T, T>,
                   .bf16_panel_gemm = panel_gemm<T, BFloat16>)

}  // namespace linea::cpu

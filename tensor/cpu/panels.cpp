// Weights laid out for sampling: panels of 32 columns of W^T, one after the other, so that a product reads them as one
// stream and nothing is packed at a step.
#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {
namespace {

constexpr int64_t kRows = 64;    // of x, for one task
constexpr int64_t kInner = 256;  // of a panel, in a core's cache

}  // namespace

// panels[p,i,j] = w[32 p + j, i]; 0 past the last column.
template <typename T>
void pack_panels(Context& ctx, const T* w, T* panels, int64_t out, int64_t in) {
  const int64_t count = (out + kPanel - 1) / kPanel;
  parallel_ranges(ctx, count, 4 * kPanel * in, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      T* panel = panels + p * in * kPanel;
      const int64_t columns = std::min(kPanel, out - p * kPanel);
      if (columns < kPanel) std::fill_n(panel, in * kPanel, T(0));
      transpose(columns, in, w + p * kPanel * in, in, panel, kPanel);
    }
  });
}

template <typename T>
void panel_gemm(Context& ctx, const T* x, const T* panels, const T* bias, T* y, int64_t R, int64_t out, int64_t in) {
  const int64_t count = (out + kPanel - 1) / kPanel, blocks = (R + kRows - 1) / kRows;
  const auto some = [&](int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) {
      const int64_t p = item / blocks, row = item % blocks * kRows;
      const int64_t rows = std::min(kRows, R - row), columns = std::min(kPanel, out - p * kPanel);
      T* to = y + row * out + p * kPanel;
      for (int64_t r = 0; bias != nullptr && r < rows; ++r)
        std::copy_n(bias + p * kPanel, columns, to + r * out);
      for (int64_t k = 0; k == 0 || k < in; k += kInner)  // once where there is nothing to add up: y is 0 then
        small_gemm(rows, columns, std::min(kInner, in - k), plain(x + row * in + k, in), panels + (p * in + k) * kPanel,
                   kPanel, to, out, bias != nullptr || k > 0);
    }
  };
  parallel_ranges(ctx, count * blocks, std::min(R, kRows) * kPanel * in / 4, some);
}

#define LINEA_INSTANTIATE(T)                                             \
  template void pack_panels(Context&, const T*, T*, int64_t, int64_t);   \
  template void panel_gemm(Context&, const T*, const T*, const T*, T*, int64_t, int64_t, int64_t);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu

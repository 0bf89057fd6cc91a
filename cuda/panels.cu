// Weights packed for sampling: consecutive panels of 32 columns of W^T. A warp reads a row of a
// panel at once, one column per lane; the warps of a block split the rows of a panel.
#include "cuda/kernel_tables.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

static_assert(kPanel == kWarp);

// Rows of x multiplied by each panel element while it is in a register.
constexpr int kRowsTogether = 4;
constexpr int kWarps = kBlockThreads / kWarp;

// y = x w^T + bias: one block per [kRowsTogether, kPanel] of y. The warps split the inner
// dimension, and their sums are added in order.
template <typename T, typename W>
__global__ void __launch_bounds__(kBlockThreads)
    panel_gemm_kernel(const T* x, const W* panels, const T* bias, T* y, int64_t R, int64_t out,
                      int64_t in) {
  using A = Accumulator<T>;
  __shared__ A part[kWarps][kRowsTogether][kPanel];
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t count = (out + kPanel - 1) / kPanel,
                groups = (R + kRowsTogether - 1) / kRowsTogether;
  for (int64_t item = blockIdx.x; item < count * groups; item += gridDim.x) {
    const int64_t p = item % count, first = item / count * kRowsTogether;
    const W* panel = panels + p * in * kPanel;
    A sum[kRowsTogether] = {};
    for (int64_t i = warp; i < in; i += kWarps) {
      const A weight = A(panel[i * kPanel + lane]);
#pragma unroll
      for (int r = 0; r < kRowsTogether; ++r)
        sum[r] += A(x[(first + r < R ? first + r : R - 1) * in + i]) * weight;
    }
#pragma unroll
    for (int r = 0; r < kRowsTogether; ++r) part[warp][r][lane] = sum[r];
    __syncthreads();
    const int64_t column = p * kPanel + lane;
    if (warp < kRowsTogether && first + warp < R && column < out) {
      A total = part[0][warp][lane];
      for (int other = 1; other < kWarps; ++other) total += part[other][warp][lane];
      y[(first + warp) * out + column] = T(bias == nullptr ? total : total + A(bias[column]));
    }
    __syncthreads();  // the next item reuses part
  }
}

}  // namespace

// panels[p,i,j] = w[32 p + j, i]; 0 beyond the last column.
template <typename T, typename W>
void pack_panels(Context& ctx, const T* w, W* panels, int64_t out, int64_t in) {
  const int64_t count = (out + kPanel - 1) / kPanel;
  for_each_column(ctx, count * in, kPanel, [=] __device__(int64_t row, int64_t j) {
    const int64_t column = row / in * kPanel + j;
    panels[row * kPanel + j] = W(column < out ? w[column * in + row % in] : T(0.0f));
  });
}

template <typename T, typename W>
void panel_gemm(Context& ctx, const T* x, const W* panels, const T* bias, T* y, int64_t R,
                int64_t out, int64_t in) {
  const int64_t blocks = (out + kPanel - 1) / kPanel * ((R + kRowsTogether - 1) / kRowsTogether);
  if (blocks == 0) return;
  launch(panel_gemm_kernel<T, W>, grid_of_tiles(blocks), dim3(kBlockThreads), 0, stream(ctx), x,
         panels, bias, y, R, out, in);
}

LINEA_KERNEL_TABLE(PanelKernels, .pack_panels = pack_panels<T, T>,
                   .pack_bf16_panels = pack_panels<T, BFloat16>, .panel_gemm = panel_gemm<T, T>,
                   .bf16_panel_gemm = panel_gemm<T, BFloat16>)

}  // namespace linea::cuda

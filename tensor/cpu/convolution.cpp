// Causal depthwise convolutions; which positions are read: ConvolutionShape.
#include <algorithm>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {

// y[b,n] = sum_t w[t] x[b, n - o_t]
template <typename T>
void convolution(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w, T* y) {
  const int64_t N = shape.N, C = shape.C;
  parallel_rows(ctx, shape.B * N, shape.count * C, [&](int64_t row) {
    const int64_t b = row / N;
    std::fill_n(y + row * C, C, T(0));
    for (int t = 0; t < shape.count; ++t)
      if (const int64_t source = shape.source(t, b, row % N); source >= 0)
        add_product(w + t * C, x + (b * N + source) * C, y + row * C, C);
  });
}

// dx[b,n] = sum_t w[t] dy[b, n + o_t];  dw[t] = sum_{b,n} dy[b,n] x[b, n - o_t]
// The sums over n are those of one thread for each sequence and block of columns; those over
// sequences follow in order.
template <typename T>
void convolution_backward(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w,
                          const T* dy, T* dx, T* dw) {
  constexpr int64_t kColumns = 64;
  const int64_t B = shape.B, N = shape.N, C = shape.C, K = shape.count;
  parallel_rows(ctx, B * N, K * C, [&](int64_t row) {
    const int64_t b = row / N;
    std::fill_n(dx + row * C, C, T(0));
    for (int t = 0; t < shape.count; ++t)
      if (const int64_t reader = shape.reader(t, b, row % N); reader >= 0)
        add_product(w + t * C, dy + (b * N + reader) * C, dx + row * C, C);
  });
  const int64_t blocks = (C + kColumns - 1) / kColumns;
  const Workspace<T> sums(ctx, B * K * C);
  std::fill_n(sums.data(), B * K * C, T(0));
  parallel_rows(ctx, B * blocks, N * K * kColumns, [&](int64_t item) {
    const int64_t b = item / blocks, first = item % blocks * kColumns;
    for (int64_t n = 0; n < N; ++n)
      for (int t = 0; t < shape.count; ++t)
        if (const int64_t source = shape.source(t, b, n); source >= 0)
          add_product(x + (b * N + source) * C + first, dy + (b * N + n) * C + first,
                      sums.data() + (b * K + t) * C + first, std::min(kColumns, C - first));
  });
  std::fill_n(dw, K * C, T(0));
  for (int64_t b = 0; b < B; ++b) add_row(sums.data() + b * K * C, dw, K * C, T(1));
}

template <typename T>
void convolution_step(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w,
                      const int32_t* positions, T* ring, T* y) {
  const int64_t C = shape.C, R = shape.ring();
  parallel_rows(ctx, shape.B, shape.count * C, [&](int64_t b) {
    const int64_t n = positions[b];
    T* const rows = ring + b * R * C;
    std::copy_n(x + b * C, C, rows + n % R * C);
    std::fill_n(y + b * C, C, T(0));
    for (int t = 0; t < shape.count; ++t)
      if (shape.reads(t, n))
        add_product(w + t * C, rows + (n - shape.offset[t]) % R * C, y + b * C, C);
  });
}

LINEA_KERNEL_TABLE(ConvolutionKernels, .convolution = convolution<T>,
                   .convolution_backward = convolution_backward<T>,
                   .convolution_step = convolution_step<T>)

}  // namespace linea::cpu

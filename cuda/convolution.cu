// Causal depthwise convolutions; formulas in tensor/cpu/convolution.cpp.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {

template <typename T>
void convolution(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w, T* y) {
  using A = Accumulator<T>;
  for_each(ctx, shape.B * shape.N * shape.C, [=] __device__(int64_t i) {
    const int64_t c = i % shape.C, n = i / shape.C % shape.N;
    A sum = 0;
    for (int t = 0; t < shape.count; ++t)
      if (shape.reads(t, n)) sum += A(w[t * shape.C + c]) * A(x[i - shape.offset[t] * shape.C]);
    y[i] = T(sum);
  });
}

template <typename T>
void convolution_backward(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w,
                          const T* dy, T* dx, T* dw) {
  using A = Accumulator<T>;
  for_each(ctx, shape.B * shape.N * shape.C, [=] __device__(int64_t i) {
    const int64_t c = i % shape.C, n = i / shape.C % shape.N;
    A sum = 0;
    for (int t = 0; t < shape.count; ++t) {
      const int64_t reader = n + shape.offset[t];
      if (reader < shape.N && shape.reads(t, reader))
        sum += A(w[t * shape.C + c]) * A(dy[i + shape.offset[t] * shape.C]);
    }
    dx[i] = T(sum);
  });
  constexpr int kSums = ConvolutionShape::kMaxOffsets;
  sum_columns<kSums, A>(
      ctx, {1, shape.B * shape.N, shape.C},
      [=] __device__(int64_t, int64_t row, int64_t c, A * totals) {
        const int64_t n = row % shape.N;
        const A gradient = A(dy[row * shape.C + c]);
#pragma unroll
        for (int t = 0; t < kSums; ++t)
          if (t < shape.count && shape.reads(t, n))
            totals[t] += gradient * A(x[(row - shape.offset[t]) * shape.C + c]);
      },
      [=] __device__(int64_t, int64_t c, const A* totals) {
#pragma unroll
        for (int t = 0; t < kSums; ++t)
          if (t < shape.count) dw[t * shape.C + c] = T(totals[t]);
      });
}

template <typename T>
void convolution_step(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w,
                      const int32_t* positions, T* ring, T* y) {
  using A = Accumulator<T>;
  const int64_t R = shape.ring();
  for_each(ctx, shape.B * shape.C, [=] __device__(int64_t i) {
    const int64_t c = i % shape.C, n = positions[i / shape.C];
    T* const rows = ring + i / shape.C * R * shape.C + c;
    rows[n % R * shape.C] = x[i];
    A sum = 0;
    for (int t = 0; t < shape.count; ++t)
      if (shape.reads(t, n))
        sum += A(w[t * shape.C + c]) * A(rows[(n - shape.offset[t]) % R * shape.C]);
    y[i] = T(sum);
  });
}

LINEA_KERNEL_TABLE(ConvolutionKernels, .convolution = convolution<T>,
                   .convolution_backward = convolution_backward<T>,
                   .convolution_step = convolution_step<T>)

}  // namespace linea::cuda

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// `from` and `to` name other rows than the offsets.
TEST(CudaConvolution, NamedRows) {
  ConvolutionShape shape{.count = 5, .offset = {0, 1, 2, 5, 6}, .B = 2, .N = 40, .C = 0};
  std::vector<int32_t> from(static_cast<size_t>(shape.B * shape.N * shape.count), -1), to = from;
  for (int64_t b = 0; b < shape.B; ++b)
    for (int64_t n = 0; n < shape.N; ++n)
      for (int t = 0; t < shape.count; ++t) {
        const int64_t source = t == 0 ? n : (n - t) / 2 * 2 - 3 * t + n % 2 - b;
        const auto own = static_cast<size_t>((b * shape.N + n) * shape.count + t);
        if (source < 0 || (n + t) % 7 == 0) continue;
        from[own] = static_cast<int32_t>(source);
        to[static_cast<size_t>((b * shape.N + source) * shape.count + t)] = static_cast<int32_t>(n);
      }
  for (const int64_t columns : {21, 40})
    expect_parity([&](auto t) {
      using T = decltype(t);
      const Tensor sources = Tensor::from(from, {shape.B, shape.N, shape.count}),
                   readers = Tensor::from(to, sources.shape());
      shape.C = columns;
      shape.from = sources.data<int32_t>();
      shape.to = readers.data<int32_t>();
      const Shape all{shape.B, shape.N, shape.C}, weights{shape.count, shape.C};
      const Tensor x = input<T>(all, 1), w = input<T>(weights, 2), dy = input<T>(all, 3),
                   y = unset<T>(all), dx = unset<T>(all), dw = unset<T>(weights);
      table<T>().convolution(context(), shape, x.data<T>(), w.data<T>(), y.data<T>());
      table<T>().convolution_backward(context(), shape, x.data<T>(), w.data<T>(), dy.data<T>(),
                                      dx.data<T>(), dw.data<T>());
      return std::vector<Tensor>{y, dx, dw};
    });
}

TEST(CudaConvolution, ForwardBackwardAndStep) {
  const ConvolutionShape text{.count = 4, .offset = {0, 1, 2, 3}, .B = 2, .N = 3, .C = 33};
  const ConvolutionShape long_text{.count = 3, .offset = {0, 2, 5}, .B = 2, .N = 50, .C = 24};
  const ConvolutionShape many{.count = 5, .offset = {0, 1, 2, 3, 20}, .B = 1, .N = 40, .C = 8};
  const ConvolutionShape images{.count = 6,
                                .offset = {0, 1, 2, 8, 11, 14},
                                .rows_up = {0, 0, 0, 1, 1, 1},
                                .column_shift = {0, 0, 0, 1, 0, -1},
                                .width = 4,
                                .channels = 3,
                                .B = 3,
                                .N = 150,
                                .C = 40};
  ConvolutionShape part = images;
  part.first = 29;
  part.C = 21;
  for (const ConvolutionShape& shape : {text, long_text, many, images, part})
    for (const int64_t unaligned : {0, 1})
      expect_parity([&](auto t) {
        using T = decltype(t);
        const Shape all{shape.B, shape.N, shape.C}, weights{shape.count, shape.C},
            row{shape.B, shape.C};
        const int64_t size = all.numel() + unaligned;
        const Tensor x = input<T>({size}, 1), w = input<T>(weights, 2), dy = input<T>({size}, 3);
        const Tensor y = unset<T>(all), dx = unset<T>(all), dw = unset<T>(weights);
        table<T>().convolution(context(), shape, x.data<T>() + unaligned, w.data<T>(), y.data<T>());
        table<T>().convolution_backward(context(), shape, x.data<T>() + unaligned, w.data<T>(),
                                        dy.data<T>() + unaligned, dx.data<T>(), dw.data<T>());
        const Tensor ring = input<T>({shape.B, shape.ring(), shape.C}, 4), now = input<T>(row, 5),
                     stepped = unset<T>(row);
        std::vector<int32_t> positions;  // the first, and later ones
        for (int64_t b = 0; b < shape.B; ++b)
          positions.push_back(static_cast<int32_t>(shape.first + 17 * b));
        const Tensor of_rows = Tensor::from(positions, {shape.B});
        table<T>().convolution_step(context(), shape, now.data<T>(), w.data<T>(),
                                    of_rows.data<int32_t>(), ring.data<T>(), stepped.data<T>());
        return std::vector<Tensor>{y, dx, dw, ring, stepped};
      });
}

}  // namespace
}  // namespace linea::cuda_tests

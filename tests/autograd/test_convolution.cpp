// Causal depthwise convolutions against the sum written out.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/context.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

ConvolutionShape of_text() { return {.count = 4, .offset = {0, 1, 2, 3}}; }
// Images of 4 pixels of 3 channels a row: the position itself, the two before it, and the pixels
// above on the right, above, and above on the left of the target.
ConvolutionShape of_images() {
  return {.count = 6,
          .offset = {0, 1, 2, 8, 11, 14},
          .rows_up = {0, 0, 0, 1, 1, 1},
          .column_shift = {0, 0, 0, 1, 0, -1},
          .width = 4,
          .channels = 3};
}

// y[b,n,c] = sum_t w[t,c] x[b,n-o_t,c], where n - o_t is a position and its pixel is in the image
std::vector<double> reference(const ConvolutionShape& shape, const std::vector<double>& x,
                              const std::vector<double>& w, int64_t B, int64_t N, int64_t C) {
  std::vector<double> y;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int t = 0; t < shape.count; ++t) {
          const int64_t from = n - shape.offset[t];
          if (from < 0) continue;
          if (shape.width > 0) {
            const int64_t pixel = n / shape.channels;
            const int64_t row = pixel / shape.width - shape.rows_up[t],
                          column = pixel % shape.width + shape.column_shift[t];
            if (row < 0 || column < 0 || column >= shape.width) continue;
          }
          sum += w[static_cast<size_t>(t * C + c)] * x[static_cast<size_t>((b * N + from) * C + c)];
        }
        y.push_back(sum);
      }
  return y;
}

TEST(Convolution, IsTheSumOfItsOffsets) {
  for (const ConvolutionShape& shape : {of_text(), of_images()})
    for (const int64_t N : {2, 3, 29}) {
      const Tensor x = random_tensor({3, N, 5}, 1), w = random_tensor({shape.count, 5}, 2);
      const std::vector<double> y = causal_convolution(Var(x), Var(w), shape).value().to_doubles();
      const std::vector<double> expected =
          reference(shape, x.to_doubles(), w.to_doubles(), 3, N, 5);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-14);
    }
}

TEST(Convolution, GradientsAreRight) {
  for (const ConvolutionShape& shape : {of_text(), of_images()})
    for (const int64_t N : {2, 19}) {  // less than the largest offset, and more
      const GradcheckResult result = gradcheck(
          [&](const std::vector<Var>& in) { return causal_convolution(in[0], in[1], shape); },
          {random_tensor({2, N, 3}, 3), random_tensor({shape.count, 3}, 4)});
      EXPECT_LE(result.error, 1e-7) << N << ", input " << result.worst_input;
    }
}

TEST(Convolution, LaterPositionsChangeNoBitOfEarlierOnes) {
  const Tensor w = random_tensor({6, 7}, 5, 1, 0, DType::f32);
  const Tensor x = random_tensor({1, 40, 7}, 6, 1, 0, DType::f32);
  const auto before = ops::convolution(x, w, of_images()).to_vector<float>();
  for (const int64_t changed : {0, 1, 17, 39}) {
    std::vector<float> values = x.to_vector<float>();
    for (int64_t i = changed * 7; i < 40 * 7; ++i) values[static_cast<size_t>(i)] = 1e30f;
    const auto after =
        ops::convolution(Tensor::from(values, x.shape()), w, of_images()).to_vector<float>();
    for (int64_t i = 0; i < changed * 7; ++i)
      EXPECT_EQ(before[static_cast<size_t>(i)], after[static_cast<size_t>(i)]);
    EXPECT_NE(before[static_cast<size_t>(changed * 7)], after[static_cast<size_t>(changed * 7)]);
  }
}

TEST(Convolution, StepsAreTheRowsOfTheWhole) {
  for (const ConvolutionShape& shape : {of_text(), of_images()}) {
    const Tensor x = random_tensor({2, 40, 5}, 7), w = random_tensor({shape.count, 5}, 8);
    const std::vector<double> whole = ops::convolution(x, w, shape).to_doubles();
    const Tensor ring = Tensor::zeros({2, shape.ring(), 5}, DType::f64);
    const std::vector<double> all = x.to_doubles();
    for (int64_t n = 0; n < 40; ++n) {
      std::vector<double> row, expected;
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t c = 0; c < 5; ++c) {
          row.push_back(all[static_cast<size_t>((b * 40 + n) * 5 + c)]);
          expected.push_back(whole[static_cast<size_t>((b * 40 + n) * 5 + c)]);
        }
      const auto position = static_cast<int32_t>(n);
      const Tensor y =
          ops::convolution_step(Tensor::from(row, {2, 1, 5}), w, shape,
                                Tensor::from(std::vector<int32_t>{position, position}, {2}), ring);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(y.to_doubles()[i], expected[i], 1e-14) << n;
    }
  }
}

TEST(Convolution, ThreadsChangeNoBit) {
  const Tensor x = random_tensor({3, 200, 130}, 9, 1, 0, DType::f32),
               w = random_tensor({6, 130}, 10, 1, 0, DType::f32),
               dy = random_tensor({3, 200, 130}, 11, 1, 0, DType::f32);
  const int before = context().threads;
  std::vector<std::vector<float>> first;
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    const auto [dx, dw] = ops::convolution_backward(x, w, of_images(), dy);
    const std::vector<std::vector<float>> now = {
        ops::convolution(x, w, of_images()).to_vector<float>(), dx.to_vector<float>(),
        dw.to_vector<float>()};
    if (first.empty()) first = now;
    EXPECT_EQ(first, now) << threads;
  }
  set_threads(before);
}

TEST(Convolution, RefusesWrongShapes) {
  const Tensor x = random_tensor({1, 4, 3}, 1), w = random_tensor({4, 2}, 2);
  expect_error(ErrorKind::usage, {"convolution", "[4,2]", "[4,3]"},
               [&] { ops::convolution(x, w, of_text()); });
  ConvolutionShape ahead = of_text();
  ahead.offset[3] = -1;
  expect_error(ErrorKind::usage, {"-1", "causal"}, [&] {
    ops::convolution(x, random_tensor({4, 3}, 2), ahead);
  });
}

}  // namespace
}  // namespace linea

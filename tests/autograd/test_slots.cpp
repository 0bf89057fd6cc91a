// Ops of attention that compresses positions to slots: gradients, and what they compute by loops.
#include "autograd/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/softmax_attention.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

Tensor x_of(const Shape& shape, uint32_t stream_id = 1) { return random_tensor(shape, stream_id); }
const Tensor kValid = Tensor::from(std::vector<int32_t>{7, 3}, {2});

void expect_gradients(const Function& f, const std::vector<Tensor>& inputs) {
  const GradcheckResult result = gradcheck(f, inputs);
  EXPECT_LE(result.error, 1e-8) << "input " << result.worst_input;
}

TEST(Slots, HaveGradients) {
  const Tensor x = x_of({2, 3, 7, 4});
  expect_gradients([](const std::vector<Var>& in) { return repeat(in[0], 3); }, {x_of({3, 2, 4})});
  expect_gradients([](const std::vector<Var>& in) { return head_matmul(in[0], in[1]); },
                   {x, x_of({3, 4, 5}, 2)});
  for (const int64_t heads : {1, 3})
    expect_gradients([](const std::vector<Var>& in) { return mix_rows(in[0], in[1]); },
                     {x, x_of({heads, 9, 5}, 2)});
  expect_gradients([](const std::vector<Var>& in) { return transpose_over_norm(softmax(in[0])); },
                   {x_of({2, 3, 5, 5})});
  for (const Tensor& valid : {Tensor(), kValid}) {
    for (const int64_t segments : {1, 3, 5})
      expect_gradients(
          [&](const std::vector<Var>& in) { return segment_means(in[0], segments, valid); }, {x});
    for (const int64_t taps : {1, 3, 17})
      expect_gradients(
          [&](const std::vector<Var>& in) { return centered_convolution(in[0], in[1], valid); },
          {x, x_of({3, taps}, 2)});
  }
}

// x [B,H,N,C] as x(b, h, n, c).
struct Rows {
  explicit Rows(const Tensor& x) : shape(x.shape()), values(x.to_doubles()) {}
  double operator()(int64_t b, int64_t h, int64_t n, int64_t c) const {
    return values[static_cast<size_t>(((b * shape[1] + h) * shape[2] + n) * shape[3] + c)];
  }
  Shape shape;
  std::vector<double> values;
};
template <typename Expected>
void expect_rows(const Var& found, const Expected& expected) {
  const Rows y(found.value());
  for (int64_t b = 0; b < y.shape[0]; ++b)
    for (int64_t h = 0; h < y.shape[1]; ++h)
      for (int64_t n = 0; n < y.shape[2]; ++n)
        for (int64_t c = 0; c < y.shape[3]; ++c)
          ASSERT_NEAR(y(b, h, n, c), expected(b, h, n, c), 1e-12) << b << h << n << c;
}

TEST(Slots, AreTheSumsOfTheirFormulas) {
  const Tensor x = x_of({2, 3, 7, 4}), w = x_of({1, 3, 9, 5}, 2);
  const Rows rows(x), matrix(w);
  const int64_t lengths[] = {7, 3};
  expect_rows(mix_rows(Var(x), Var(w.reshape({3, 9, 5}))),
              [&](int64_t b, int64_t h, int64_t s, int64_t c) {
                double sum = 0;
                for (int64_t n = 0; n < 7; ++n) sum += matrix(0, h, n, s) * rows(b, h, n, c);
                return sum;
              });
  expect_rows(segment_means(Var(x), 2, kValid), [&](int64_t b, int64_t h, int64_t s, int64_t c) {
    const int64_t half = lengths[b] / 2, first = s == 0 ? 0 : half,
                  end = s == 0 ? half : lengths[b];
    double sum = 0;
    for (int64_t n = first; n < end; ++n) sum += rows(b, h, n, c);
    return sum / static_cast<double>(end - first);
  });
  const Rows taps(x_of({1, 1, 3, 5}, 3));
  expect_rows(centered_convolution(Var(x), Var(x_of({3, 5}, 3)), kValid),
              [&](int64_t b, int64_t h, int64_t n, int64_t c) {
                double sum = 0;
                for (int64_t t = -2; t <= 2; ++t)
                  if (n + t >= 0 && n + t < lengths[b])
                    sum += taps(0, 0, h, t + 2) * rows(b, h, n + t, c);
                return sum;
              });
}

// Softmax attention of other numbers of queries than of keys.
TEST(Slots, ReadAndAreReadBySoftmaxAttention) {
  const Tensor k = x_of({2, 3, 7, 4}, 2), v = x_of({2, 3, 7, 5}, 3);
  for (const int64_t queries : {2, 130}) {
    const Tensor q = x_of({2, 3, queries, 4});
    for (const Tensor& valid : {Tensor(), kValid}) {
      const auto attention = [&](const std::vector<Var>& in) {
        return softmax_attention({in[0], in[1], in[2], Var()}, {false, valid});
      };
      const Var y = attention({Var(q), Var(k), Var(v)}),
                expected = naive::softmax_attention(scale(matmul(Var(q), Var(k), false, true), 0.5),
                                                    Var(v), {false, valid});
      EXPECT_EQ(y.shape(), expected.shape());
      EXPECT_LE(relative_error(y.value(), expected.value()), 1e-12);
      if (queries == 2) expect_gradients(attention, {q, k, v});
    }
    EXPECT_THROW(softmax_attention({Var(q), Var(k), Var(v), Var()}, {true, {}}), Error);
    EXPECT_THROW(softmax_attention({Var(q), Var(k), Var(v), Var()}, {false, {}}, 3), Error);
  }
}

TEST(Slots, RefuseShapesThatDoNotGoTogether) {
  const Var x(x_of({2, 3, 7, 4}));
  EXPECT_THROW(mix_rows(x, Var(x_of({3, 6, 5}))), Error);
  EXPECT_THROW(mix_rows(x, Var(x_of({2, 7, 5}))), Error);
  EXPECT_THROW(segment_means(x, 2, Tensor::from(std::vector<int32_t>{1}, {1})), Error);
  EXPECT_THROW(centered_convolution(x, Var(x_of({2, 3})), {}), Error);
  EXPECT_THROW(transpose_over_norm(x), Error);
}

}  // namespace
}  // namespace linea

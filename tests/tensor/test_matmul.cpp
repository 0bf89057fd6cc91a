// Matrix products in every arrangement against plain loops in double.
#include <array>

#include "base/scoped.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tests/tensor/op_values.h"

namespace linea::op_tests {
namespace {

Values naive_matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                    double alpha) {
  const Values x = a.to_doubles(), y = b.to_doubles();
  const int64_t rows = a.size(transpose_a ? -1 : -2), inner = a.size(transpose_a ? -2 : -1);
  const int64_t cols = b.size(transpose_b ? -2 : -1),
                batch = a.numel() / std::max<int64_t>(rows * inner, 1);
  const bool shared = b.shape().rank() == 2;
  Values result;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        double total = 0;
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t at_a = n * rows * inner + (transpose_a ? i * rows + r : r * inner + i);
          const int64_t at_b =
              (shared ? 0 : n * inner * cols) + (transpose_b ? c * inner + i : i * cols + c);
          total += x[static_cast<size_t>(at_a)] * y[static_cast<size_t>(at_b)];
        }
        result.push_back(alpha * total);
      }
  return result;
}

TEST_P(Ops, MatmulInEveryArrangement) {
  const int before = context().threads;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const std::vector<int64_t>& outer : {std::vector<int64_t>{}, {1}, {3}, {2, 3}}) {
          const auto shape = [&](int64_t rows, int64_t cols, bool transposed) {
            std::vector<int64_t> sizes = outer;
            sizes.push_back(transposed ? cols : rows);
            sizes.push_back(transposed ? rows : cols);
            return Shape(sizes);
          };
          const Tensor a = random(shape(5, 7, transpose_a), 1, dtype());
          const Tensor b = random(shape(7, 3, transpose_b), 2, dtype());
          const Tensor c = ops::matmul(a, b, transpose_a, transpose_b, 0.5);
          EXPECT_EQ(c.shape(), shape(5, 3, false));
          expect_near(c, naive_matmul(a, b, transpose_a, transpose_b, 0.5), "matmul");
          if (transpose_a || outer.empty()) continue;
          const Tensor shared = random(transpose_b ? Shape{3, 7} : Shape{7, 3}, 3, dtype());
          const Tensor d = ops::matmul(a, shared, false, transpose_b);
          EXPECT_EQ(d.shape(), shape(5, 3, false));
          expect_near(d, naive_matmul(a, shared, false, transpose_b, 1), "matmul, shared");
        }
      }
    }
    const Tensor large_a = random({130, 67}, 4, dtype()), large_b = random({67, 150}, 5, dtype());
    expect_near(ops::scale(ops::matmul(large_a, large_b), 0.1),
                naive_matmul(large_a, large_b, false, false, 0.1), "matmul, large");
  }
  set_threads(before);
}

// Large enough to be cut into strips, by rows or by columns, whose borders are anywhere; with what
// was there added.
TEST_P(Ops, MatmulInStrips) {
  const int before = context().threads;
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    for (const auto& [rows, cols] :
         std::vector<std::pair<int64_t, int64_t>>{{131, 21}, {21, 131}, {96, 96}})
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true})
          for (const double beta : {0.0, 1.0}) {
            const Tensor a = random(transpose_a ? Shape{53, rows} : Shape{rows, 53}, 1, dtype());
            const Tensor b = random(transpose_b ? Shape{cols, 53} : Shape{53, cols}, 2, dtype());
            const Tensor c = random({rows, cols}, 3, dtype());
            Values expected = naive_matmul(a, b, transpose_a, transpose_b, 0.1);
            const Values was = c.to_doubles();
            for (size_t i = 0; i < expected.size(); ++i) expected[i] += 0.1 * beta * was[i];
            ops::matmul_into(a, b, transpose_a, transpose_b, c, beta);
            expect_near(ops::scale(c, 0.1), expected, "matmul in strips");
          }
  }
  set_threads(before);
}

// y = residual + gelu(norm(x) w^T + bias) has the bits of its parts one after the other, whichever of
// them are there.
void expect_parts_of_linear(int64_t rows, int64_t out, int64_t in, DType dtype) {
  SCOPED_TRACE(testing::Message() << rows << " x " << out << " x " << in << ", "
                                  << context().threads << " threads");
  const Tensor x = random({rows, in}, 1, dtype), w = random({out, in}, 2, dtype),
               residual = random({rows, out}, 4, dtype);
  const Tensor bias = random({out}, 3, dtype), y({rows, out}, dtype);
  const Tensor sums = ops::matmul(x, w, false, true), with_bias = ops::add_rows(sums, bias);
  ops::linear_into(x, {}, {w}, false, Tensor(), y);
  EXPECT_EQ(y.to_doubles(), sums.to_doubles());
  ops::linear_into(x, {}, {w, bias}, false, residual, y);
  EXPECT_EQ(y.to_doubles(), ops::add(residual, with_bias).to_doubles());
  ops::linear_into(x, {}, {w, bias}, true, Tensor(), y);
  EXPECT_EQ(y.to_doubles(), ops::pointwise(Pointwise::gelu, with_bias).to_doubles());
  const Tensor weight = random({in}, 5, dtype), shift = random({in}, 6, dtype);
  for (const Tensor& of_norm : {shift, Tensor()}) {
    const Tensor normalized = ops::layer_norm(x, weight, of_norm).y;
    const Tensor of_normalized = ops::matmul(normalized, w, false, true);
    ops::linear_into(x, {weight, of_norm}, {w}, false, Tensor(), y);
    EXPECT_EQ(y.to_doubles(), of_normalized.to_doubles());
    ops::linear_into(x, {weight, of_norm}, {w, bias}, true, residual, y);
    const Tensor all =
        ops::add(residual, ops::pointwise(Pointwise::gelu, ops::add_rows(of_normalized, bias)));
    EXPECT_EQ(y.to_doubles(), all.to_doubles());
  }
}

TEST_P(Ops, LinearMatchesItsParts) { expect_parts_of_linear(9, 7, 5, dtype()); }

// Sizes of the packed kernels, exact and rounded: edges of blocks, more than one strip of rows and
// columns, sums of more than one block.
TEST(PackedLinear, MatchesItsParts) {
  const Tensor x = random({97, 70}, 1, DType::f32), w = random({33, 70}, 2, DType::f32);
  const Tensor exact = ops::matmul(x, w, false, true);
  for (const FloatProducts products : {FloatProducts::exact, FloatProducts::rounded}) {
    const Scoped<FloatProducts> chosen(context().products, products);
    const bool rounds = products == FloatProducts::rounded && bf16_isa() != nullptr;
    EXPECT_EQ(ops::matmul(x, w, false, true).to_doubles() != exact.to_doubles(), rounds);
    for (const int threads : {1, 3}) {
      const Scoped<int> used(context().threads, threads);
      for (const auto& [rows, out, in] : {std::array<int64_t, 3>{1, 1, 32},
                                          {9, 7, 33},
                                          {97, 33, 70},
                                          {200, 331, 70},
                                          {19, 65, 1100}})
        expect_parts_of_linear(rows, out, in, DType::f32);
    }
  }
}

TEST_P(Ops, EmptyMatmul) {
  const Tensor none = random({3, 0}, 1, dtype()), no_rows = random({0, 3}, 2, dtype());
  expect_near(ops::matmul(none, no_rows), Values(9, 0.0), "an empty sum");
  EXPECT_EQ(ops::matmul(no_rows, random({3, 4}, 3, dtype())).shape(), (Shape{0, 4}));
}

}  // namespace
}  // namespace linea::op_tests

// Matrix products in every arrangement against plain loops in double.
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

// Large enough to be cut into strips, by rows or by columns, whose borders lie anywhere; with what
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

// The bits of its parts one after the other.
TEST_P(Ops, LinearMatchesItsParts) {
  const Tensor x = random({9, 5}, 1, dtype()), w = random({7, 5}, 2, dtype()),
               residual = random({9, 7}, 4, dtype());
  const Tensor bias = random({7}, 3, dtype()), y({9, 7}, dtype());
  const Tensor sums = ops::matmul(x, w, false, true), with_bias = ops::add_rows(sums, bias);
  ops::linear_into(x, {}, w, Tensor(), false, Tensor(), y);
  EXPECT_EQ(y.to_doubles(), sums.to_doubles());
  ops::linear_into(x, {}, w, bias, false, residual, y);
  EXPECT_EQ(y.to_doubles(), ops::add(residual, with_bias).to_doubles());
  ops::linear_into(x, {}, w, bias, true, Tensor(), y);
  EXPECT_EQ(y.to_doubles(), ops::pointwise(Pointwise::gelu, with_bias).to_doubles());
  const Tensor weight = random({5}, 5, dtype()), shift = random({5}, 6, dtype());
  for (const Tensor& of_norm : {shift, Tensor()}) {
    const Tensor normalized = ops::layer_norm(x, weight, of_norm).y;
    ops::linear_into(x, {weight, of_norm}, w, Tensor(), false, Tensor(), y);
    EXPECT_EQ(y.to_doubles(), ops::matmul(normalized, w, false, true).to_doubles());
  }
}

TEST_P(Ops, EmptyMatmul) {
  const Tensor none = random({3, 0}, 1, dtype()), no_rows = random({0, 3}, 2, dtype());
  expect_near(ops::matmul(none, no_rows), Values(9, 0.0), "an empty sum");
  EXPECT_EQ(ops::matmul(no_rows, random({3, 4}, 3, dtype())).shape(), (Shape{0, 4}));
}

}  // namespace
}  // namespace linea::op_tests

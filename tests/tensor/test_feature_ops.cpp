// The ops that features of queries and keys are made with, and the functions of gates, against
// plain loops in double, in f32 and f64.
#include <limits>

#include "tests/tensor/op_values.h"

namespace linea::op_tests {
namespace {

double at(const Values& x, int64_t i) { return x[static_cast<size_t>(i)]; }

class FeatureOps : public DtypeTest {};
INSTANTIATE_TEST_SUITE_P(Dtypes, FeatureOps, testing::Values(DType::f32, DType::f64),
                         [](const auto& param) { return name_of(param.param); });

// Each of P pairs of S rows with the matrix of its head.
void expect_head_matmul(int64_t P, int64_t S, int64_t first, bool transpose, DType dtype) {
  const int64_t K = 3, C = 4, H = 3;
  const Tensor x = random({P, S, K}, 1, dtype),
               w = random(transpose ? Shape{H, C, K} : Shape{H, K, C}, 2, dtype);
  const Values a = x.to_doubles(), b = w.to_doubles();
  Values expected;
  for (int64_t p = 0; p < P; ++p)
    for (int64_t s = 0; s < S; ++s)
      for (int64_t c = 0; c < C; ++c) {
        double total = 0;
        const int64_t head = (first + p) % H;
        for (int64_t i = 0; i < K; ++i)
          total += at(a, (p * S + s) * K + i) *
                   at(b, head * K * C + (transpose ? c * K + i : i * C + c));
        expected.push_back(-0.5 * total);
      }
  const Tensor y = ops::head_matmul(x, w, first, transpose, -0.5);
  EXPECT_EQ(y.shape(), (Shape{P, S, C}));
  expect_near(y, expected, "head_matmul");
}

// Pairs that begin and end in the middle of a sequence's heads, pairs of one row each; one and two
// threads.
TEST_P(FeatureOps, HeadMatmul) {
  const int before = context().threads;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    for (const int64_t first : {0, 1, 2, 5})
      for (const bool transpose : {false, true}) {
        expect_head_matmul(7, 5, first, transpose, dtype());
        expect_head_matmul(12, 1, first, transpose, dtype());
        expect_head_matmul(7, 1, first, transpose, dtype());
      }
  }
  set_threads(before);
  EXPECT_THROW(
      ops::head_matmul(random({7, 5, 3}, 1, dtype()), random({3, 4, 4}, 2, dtype()), 0, false),
      Error);
}

TEST_P(FeatureOps, SineAndCosine) {
  const int64_t R = 6, n = 5;
  const Tensor u = ops::scale(random({2, 3, n}, 1, dtype()), 4.0),
               dy = random({2, 3, 2 * n}, 2, dtype());
  const Values x = u.to_doubles(), grad = dy.to_doubles();
  Values y, du;
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t i = 0; i < n; ++i) y.push_back(std::sin(at(x, r * n + i)));
    for (int64_t i = 0; i < n; ++i) y.push_back(std::cos(at(x, r * n + i)));
    for (int64_t i = 0; i < n; ++i)
      du.push_back(std::cos(at(x, r * n + i)) * at(grad, 2 * r * n + i) -
                   std::sin(at(x, r * n + i)) * at(grad, 2 * r * n + n + i));
  }
  const Tensor made = ops::sine_cosine(u);
  EXPECT_EQ(made.shape(), (Shape{2, 3, 2 * n}));
  expect_near(made, y, "sine_cosine");
  expect_near(ops::sine_cosine_backward(made, dy), du, "sine_cosine_backward");
}

// Pairs of three heads, from the second on.
TEST_P(FeatureOps, RandomLogs) {
  const int64_t P = 4, S = 3, D = 5, F = 7, H = 3, first = 1;
  const double scale = 0.6;
  const Tensor x = random({P, S, D}, 1, dtype()), omega = random({H, F, D}, 2, dtype());
  const Tensor du = random({P, S, F}, 3, dtype());
  const Values a = x.to_doubles(), w = omega.to_doubles(), c = du.to_doubles();
  Values u, dx;
  for (int64_t r = 0; r < P * S; ++r) {
    const int64_t head = (first + r / S) % H;
    const auto of = [&](int64_t f, int64_t i) { return at(w, (head * F + f) * D + i); };
    double norm = 0;
    for (int64_t i = 0; i < D; ++i) norm += scale * at(a, r * D + i) * scale * at(a, r * D + i);
    for (int64_t f = 0; f < F; ++f) {
      double dot = 0;
      for (int64_t i = 0; i < D; ++i) dot += of(f, i) * scale * at(a, r * D + i);
      u.push_back(dot - norm / 2);
    }
    for (int64_t i = 0; i < D; ++i) {
      double grad = 0;
      for (int64_t f = 0; f < F; ++f)
        grad += scale * at(c, r * F + f) * (of(f, i) - scale * at(a, r * D + i));
      dx.push_back(grad);
    }
  }
  expect_near(ops::random_logs(x, omega, first, scale), u, "random_logs");
  expect_near(ops::random_logs_backward(x, du, omega, first, scale), dx, "random_logs_backward");
}

TEST_P(FeatureOps, CodesOfKeys) {
  const int64_t P = 8, S = 37, D = 3, F = 6, H = 4;
  const Tensor x = random({P, S, D}, 1, dtype()), codebook = random({H, F, D}, 2, dtype());
  const Values a = x.to_doubles(), c = codebook.to_doubles();
  const int before = context().threads;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    for (const int64_t first : {0, 3}) {
      std::vector<int32_t> expected;
      Values gathered, counts(static_cast<size_t>(H * F), 0.0),
          sums(static_cast<size_t>(H * F * D), 0.0);
      for (int64_t row = 0; row < P * S; ++row) {
        const int64_t head = (first + row / S) % H;
        double min = std::numeric_limits<double>::infinity();
        int64_t best = -1;
        for (int64_t f = 0; f < F; ++f) {
          double distance = 0;
          for (int64_t d = 0; d < D; ++d)
            distance += std::pow(at(a, row * D + d) - at(c, (head * F + f) * D + d), 2);
          if (distance >= min) continue;
          min = distance;
          best = f;
        }
        expected.push_back(static_cast<int32_t>(head * F + best));
        counts[static_cast<size_t>(head * F + best)] += 1;
        for (int64_t d = 0; d < D; ++d) {
          gathered.push_back(at(c, (head * F + best) * D + d));
          sums[static_cast<size_t>((head * F + best) * D + d)] += at(a, row * D + d);
        }
      }
      const Tensor codes = ops::nearest_code(x, codebook, first);
      EXPECT_EQ(codes.to_vector<int32_t>(), expected);
      EXPECT_EQ(ops::embedding(codebook.reshape({H * F, D}), codes).to_doubles(), gathered);
      const Tensor ones = Tensor::full({P * S, 1}, dtype(), 1.0);
      EXPECT_EQ(ops::embedding_backward(codes, ones, H * F).to_doubles(), counts);
      expect_near(ops::embedding_backward(codes, x, H * F), sums, "sums by code");
    }
  }
  set_threads(before);
}

TEST_P(FeatureOps, TheFirstOfEquallyNearCodes) {
  const Tensor codebook = make({5, 1, -1, 1, 1}, {1, 5, 1}, dtype());
  EXPECT_EQ(ops::nearest_code(make({0, 1, 3, -9, 1e9}, {1, 5, 1}, dtype()), codebook, 0)
                .to_vector<int32_t>(),
            (std::vector<int32_t>{1, 1, 0, 2, 0}));
}

TEST_P(FeatureOps, OneHotLogs) {
  const double none = -std::numeric_limits<double>::infinity();
  const Tensor y =
      ops::one_hot_logs(Tensor::from(std::vector<int32_t>{2, 0, 1, 2}, {2, 2}), 3, dtype());
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(y.dtype(), dtype());
  EXPECT_EQ(y.to_doubles(), (Values{none, none, 0, 0, none, none, none, 0, none, none, none, 0}));
}

TEST_P(FeatureOps, ReverseCumsum) {
  const int64_t R = 3, n = 1001;
  const Tensor x = random({R, n}, 1, dtype()), y = ops::reverse_cumsum(x);
  Values expected(static_cast<size_t>(R * n));
  const Values values = x.to_doubles();
  for (int64_t r = 0; r < R; ++r) {
    double total = 0;
    for (int64_t i = n - 1; i >= 0; --i)
      expected[static_cast<size_t>(r * n + i)] = total += at(values, r * n + i);
  }
  expect_near(y, expected, "reverse_cumsum");
}

TEST_P(FeatureOps, FunctionsOfGates) {
  Values x, gates, grads;
  for (int i = 0; i < 200; ++i) {
    x.push_back(static_cast<float>(-40 + 0.4 * i));
    gates.push_back(static_cast<float>((i + 0.5) / 200));
    grads.push_back(static_cast<float>(std::cos(i)));
  }
  const Tensor in = make(x, {200}, dtype()), gate = make(gates, {200}, dtype()),
               dy = make(grads, {200}, dtype());
  Values sigmoid, dsigmoid, log, dlog, rest, drest;
  for (size_t i = 0; i < x.size(); ++i) {
    const double s = 1 / (1 + std::exp(-x[i]));
    sigmoid.push_back(s);
    dsigmoid.push_back(s * (1 - s) * grads[i]);
    log.push_back(std::log(gates[i]));
    dlog.push_back(grads[i] / gates[i]);
    rest.push_back(std::log1p(-gates[i]));
    drest.push_back(-grads[i] / (1 - gates[i]));
  }
  expect_near(ops::pointwise(Pointwise::sigmoid, in), sigmoid, "sigmoid");
  expect_near(ops::pointwise_backward(Pointwise::sigmoid, in, dy), dsigmoid, "sigmoid, backward");
  expect_near(ops::pointwise(Pointwise::log_gate, gate), log, "log");
  expect_near(ops::pointwise_backward(Pointwise::log_gate, gate, dy), dlog, "log, backward");
  expect_near(ops::pointwise(Pointwise::log_one_minus_gate, gate), rest, "log_one_minus_gate");
  expect_near(ops::pointwise_backward(Pointwise::log_one_minus_gate, gate, dy), drest,
              "log_one_minus_gate, backward");

  Values log_sigmoid, dlog_sigmoid, log_one_minus, dlog_one_minus;
  for (size_t i = 0; i < x.size(); ++i) {
    log_sigmoid.push_back(x[i] - std::log1p(std::exp(x[i])));
    dlog_sigmoid.push_back(grads[i] / (1 + std::exp(x[i])));
    log_one_minus.push_back(-std::log1p(std::exp(x[i])));
    dlog_one_minus.push_back(-sigmoid[i] * grads[i]);
  }
  expect_near(ops::pointwise(Pointwise::log_sigmoid, in), log_sigmoid, "log_sigmoid");
  expect_near(ops::pointwise_backward(Pointwise::log_sigmoid, in, dy), dlog_sigmoid,
              "log_sigmoid, backward");
  expect_near(ops::pointwise(Pointwise::log_one_minus_sigmoid, in), log_one_minus,
              "log_one_minus_sigmoid");
  expect_near(ops::pointwise_backward(Pointwise::log_one_minus_sigmoid, in, dy), dlog_one_minus,
              "log_one_minus_sigmoid, backward");

  const Tensor ends = make({-800, 800, -30}, {3}, dtype()), one = make({1, 1, 1}, {3}, dtype());
  const Values s = ops::pointwise(Pointwise::sigmoid, ends).to_doubles();
  EXPECT_EQ(s[0], 0.0);
  EXPECT_EQ(s[1], 1.0);
  EXPECT_NEAR(s[2], std::exp(-30),
              1e-6 * std::exp(-30));  // relative: no digit of a small gate is lost
  EXPECT_EQ(ops::pointwise_backward(Pointwise::sigmoid, ends, one).to_doubles()[1], 0.0);
  EXPECT_EQ(ops::pointwise_backward(Pointwise::log_one_minus_gate, one, one).to_doubles(),
            (Values{0, 0, 0}));
  const double small = static_cast<float>(1e-20);
  EXPECT_EQ(ops::pointwise(Pointwise::log_one_minus_gate, make({small}, {1}, dtype())).item(),
            -small);  // 1 - x is 1
}

// Relative to each: no digit of g or of 1 - g is lost, however near to 0 they are.
TEST_P(FeatureOps, LogsOfLogitsKeepTheirDigits) {
  const double bound = dtype() == DType::f64 ? 2e-15 : 4e-7;
  const auto near = [&](Pointwise f, double x, double value, double derivative) {
    const Tensor in = make({x}, {1}, dtype()), one = make({1}, {1}, dtype());
    EXPECT_NEAR(ops::pointwise(f, in).item() / value, 1, bound) << x;
    EXPECT_NEAR(ops::pointwise_backward(f, in, one).item() / derivative, 1, bound) << x;
  };
  for (const double x : {17.0, 20.0, 40.0, 80.0}) {
    const double e = std::exp(-x);  // 1 - g, to e^2
    near(Pointwise::log_sigmoid, x, -std::log1p(e), e / (1 + e));
    near(Pointwise::log_one_minus_sigmoid, x, -x - std::log1p(e), -1 / (1 + e));
    near(Pointwise::log_sigmoid, -x, -x - std::log1p(e), 1 / (1 + e));
    near(Pointwise::log_one_minus_sigmoid, -x, -std::log1p(e), -e / (1 + e));
    const Tensor in = make({x}, {1}, dtype()), one = make({1}, {1}, dtype());
    EXPECT_NEAR(
        ops::pointwise_backward(Pointwise::sigmoid, in, one).item() / (e / ((1 + e) * (1 + e))), 1,
        4 * bound);
  }
  const Tensor below = make({-1e4}, {1}, dtype()), one = make({1}, {1}, dtype());
  EXPECT_EQ(ops::pointwise(Pointwise::log_sigmoid, below).item(), kMinLogDecay);
  EXPECT_EQ(ops::pointwise_backward(Pointwise::log_sigmoid, below, one).item(), 0.0);
}

}  // namespace
}  // namespace linea::op_tests

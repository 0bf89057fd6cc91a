// What the delta rule must not be touched by: the run before, the future, padding, rows without
// features.
#include <limits>

#include "tests/autograd/delta_problem.h"

namespace linea::delta_tests {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  std::vector<unsigned char> x(a.bytes()), y(b.bytes());
  a.read(x.data());
  b.read(y.data());
  return a.shape() == b.shape() && x == y;
}

void expect_same_bits(const Result& found, const Result& expected) {
  EXPECT_TRUE(same_bits(found.y, expected.y));
  EXPECT_TRUE(same_bits(found.dq, expected.dq));
  EXPECT_TRUE(same_bits(found.dk, expected.dk));
  EXPECT_TRUE(same_bits(found.dv, expected.dv));
  EXPECT_TRUE(same_bits(found.dbeta, expected.dbeta));
}

// x with rows [first, N) of sequence b (of all where b is below 0) replaced by `value`.
Tensor with_tail(const Tensor& x, int64_t first, double value, int64_t b = -1) {
  std::vector<double> values = x.to_doubles();
  const int64_t H = x.size(1), N = x.size(2), width = x.shape().product(3, x.shape().rank());
  for (int64_t i = 0; i < x.numel(); ++i)
    if (i / width % N >= first && (b < 0 || i / (width * N * H) == b)) at(values, i) = value;
  return conformance::in_dtype(Tensor::from(values, x.shape()), x.dtype());
}

std::vector<double> tail(const Tensor& x, int64_t b, int64_t first) {
  const std::vector<double> values = x.to_doubles();
  const int64_t H = x.size(1), N = x.size(2), width = x.shape().product(3, x.shape().rank());
  std::vector<double> found;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (i / width % N >= first && i / (width * N * H) == b)
      found.push_back(values[static_cast<size_t>(i)]);
  return found;
}

TEST(Delta, TwoRunsGiveTheSameBits) {
  const Map map = named("elu");
  const Problem p = problem(2, 3, 300, 8, 8, DType::f32);
  const Result first = chunked(map, p), second = chunked(map, p);
  expect_same_bits(second, first);
}

// At every cut, also inside a chunk, whatever finite values follow it. (A NaN may pass inside
// BLAS's triangular solve: some processors' kernels multiply whole blocks.)
TEST(Delta, IsCausal) {
  const Map map = named("elu");
  for (const auto& [dtype, decays] : {std::pair(DType::f32, false), std::pair(DType::f64, false),
                                      std::pair(DType::f32, true), std::pair(DType::f64, true)}) {
    const Problem p = problem(1, 2, 131, 8, 9, dtype, decays);
    for (const LinearAttentionOptions& options :
         {LinearAttentionOptions{true, {}, 40, 16}, LinearAttentionOptions{}}) {
      const NoGrad no_grad;
      const auto forward = [&](const Problem& x) {
        return delta(map, {Var(x.q), Var(x.k), Var(x.v), Var(x.beta)}, options).value();
      };
      const std::vector<double> before = forward(p).to_doubles();
      for (int64_t cut = 1; cut < p.N; cut += 3) {
        for (const double value : {0.0, 1e6, -1e9}) {
          Problem changed = p;
          for (Tensor* x : {&changed.q, &changed.k, &changed.v, &changed.beta})
            *x = with_tail(*x, cut, value);
          const std::vector<double> after = forward(changed).to_doubles();
          for (int64_t pair = 0; pair < p.H; ++pair) {
            for (int64_t i = pair * p.N * p.M; i < (pair * p.N + cut) * p.M; ++i) {
              const size_t place = static_cast<size_t>(i);
              ASSERT_EQ(after[place], before[place]) << cut << " " << value << " " << i;
            }
          }
        }
      }
    }
  }
}

TEST(Delta, PaddingIsIgnored) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Var width(random_tensor({3, 6}, 36), true);
  const Map logs = std::make_shared<TrainedLogs>(width);
  for (const auto& [map, decays] : {std::pair(named("elu"), false), std::pair(named("dpfp"), false),
                                    std::pair(logs, false), std::pair(logs, true)}) {
    const Problem p = problem(4, 2, 97, 3, 4, DType::f64, decays);
    const std::vector<int32_t> counts = {0, 23, 80, 97};
    const Tensor valid = Tensor::from(counts, {4});
    const Tensor expected = by_loops(*map, p, counts);
    Problem wild = p;
    for (int64_t b = 0; b < p.B; ++b)
      for (Tensor* x : {&wild.k, &wild.v, &wild.beta})
        *x = with_tail(*x, counts[static_cast<size_t>(b)], nan, b);
    const Problem given{wild.B,         wild.H,         wild.N,
                        wild.D,         wild.M,         wild.q,
                        wild.k.clone(), wild.v.clone(), wild.beta.clone(),
                        wild.dy};
    for (const LinearAttentionOptions& options :
         {LinearAttentionOptions{true, valid, 40, 16}, LinearAttentionOptions{true, valid, 0, 0}}) {
      width.clear_grad();
      const Result clean = chunked(map, p, options);
      const Tensor dwidth = width.grad();
      width.clear_grad();
      const Result found = chunked(map, wild, options);
      EXPECT_TRUE(!dwidth.defined() || same_bits(width.grad(), dwidth));
      EXPECT_LE(relative_error(found.y, expected), 1e-13);
      expect_same_bits(found, clean);
      expect_close(found, quadratic(map, wild, valid), 1e-13, 1e-11, "quadratic");
      for (int64_t b = 0; b < p.B; ++b)
        for (const Tensor& gradient : {found.dk, found.dv, found.dbeta})
          for (const double value : tail(gradient, b, counts[static_cast<size_t>(b)]))
            ASSERT_EQ(value, 0.0);
    }
    EXPECT_TRUE(same_bits(wild.k, given.k) && same_bits(wild.v, given.v) &&
                same_bits(wild.beta, given.beta));
  }
}

// A row of features whose sum is exactly 0: the query reads 0, the key writes nothing, and neither
// has a gradient.
TEST(Delta, RowsWithZeroFeaturesAreZero) {
  const Map map = std::make_shared<CutOff>();
  Problem p = problem(1, 2, 50, 3, 4);
  const auto negative = [&](const Tensor& x, int64_t every) {
    std::vector<double> values = x.to_doubles();
    for (int64_t i = 0; i < x.numel(); ++i)
      at(values, i) =
          i / p.D % p.N % every == 0 ? -std::abs(at(values, i)) : std::abs(at(values, i));
    return Tensor::from(values, x.shape());
  };
  p.q = negative(p.q, 3);
  p.k = negative(p.k, 4);
  const Result found = chunked(map, p, {true, {}, 40, 16});
  EXPECT_LE(relative_error(found.y, by_loops(*map, p)), 1e-13);
  expect_close(found, quadratic(map, p), 1e-13, 1e-11, "quadratic");
  const auto is_zero = [&](const Tensor& x, int64_t every) {
    const std::vector<double> values = x.to_doubles();
    const int64_t width = x.shape().product(3, x.shape().rank());
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double value = values[static_cast<size_t>(i)];
      EXPECT_TRUE(i / width % p.N % every != 0 || value == 0.0) << i << ": " << value;
    }
  };
  is_zero(found.y, 3);
  is_zero(found.dq, 3);
  for (const Tensor& gradient : {found.dk, found.dv, found.dbeta}) is_zero(gradient, 4);

  DeltaState state({1, 1, 3, 2}, DType::f64);
  const auto full = [](const Shape& shape, double value) {
    return Var(Tensor::full(shape, DType::f64, value));
  };
  const Var nothing = full({1, 1, 1, 3}, -1.0), something = full({1, 1, 1, 3}, 1.0),
            v = full({1, 1, 1, 2}, 1.0), beta = full({1, 1, 1, 1}, 0.5);
  EXPECT_EQ(delta_rule()->step(*map, state, {something, nothing, v, beta}).to_doubles(),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(delta_rule()->step(*map, state, {nothing, something, v, beta}).to_doubles(),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(state.state.to_doubles(), std::vector<double>(6, 0.5 / 3));
}

}  // namespace
}  // namespace linea::delta_tests

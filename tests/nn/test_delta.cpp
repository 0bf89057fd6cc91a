// The delta rule in all its forms against loops over positions written from the formula.
#include "nn/delta.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/context.h"

namespace linea {
namespace {

using Map = std::shared_ptr<const FeatureMap>;

Map named(const char* name) { return make_feature_map(name, 1); }

// max(x, 0): rows of features may be 0 altogether.
class CutOff final : public FeatureMap {
 public:
  int64_t features(int64_t key_size) const override { return key_size; }
  Features forward(const Tensor& x, Side, const PairRange&) const override {
    return {ops::pointwise(Pointwise::relu, x), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side, const PairRange&,
                  const std::vector<Tensor>&) const override {
    return ops::pointwise_backward(Pointwise::relu, x, gradient.rows);
  }
};

// log phi(x) = x W, W [D,F] a parameter; W of queries is twice that of keys.
class TrainedLogs final : public FeatureMap {
 public:
  explicit TrainedLogs(Var width) : width_(std::move(width)) {}
  int64_t features(int64_t) const override { return width_.size(1); }
  FeatureKind kind() const override { return FeatureKind::logs; }
  std::vector<Var> parameters() const override { return {width_}; }
  Features forward(const Tensor& x, Side side, const PairRange&) const override {
    return {ops::matmul(x, width_.value(), false, false, factor(side)), {}};
  }
  Tensor backward(const Tensor& x, const Features&, const Features& gradient, Side side, const PairRange&,
                  const std::vector<Tensor>& gradients) const override {
    const int64_t rows = x.numel() / x.size(-1);
    if (gradients.at(0).defined())
      ops::accumulate(ops::matmul(x.reshape({rows, x.size(-1)}), gradient.rows.reshape({rows, width_.size(1)}),
                                  true, false, factor(side)),
                      gradients[0]);
    return ops::matmul(gradient.rows, width_.value(), false, true, factor(side));
  }

 private:
  static double factor(Side side) { return side == Side::query ? 2.0 : 1.0; }
  Var width_;
};

struct Problem {
  int64_t B, H, N, D, M;
  Tensor q, k, v, beta, dy;
};

// Numbers in (0,1) of the shape.
Tensor fractions(const Shape& shape, uint32_t lane, DType dtype) {
  std::vector<double> values = random_tensor(shape, lane, 1.5).to_doubles();
  for (double& value : values) value = 1 / (1 + std::exp(-value));
  if (dtype == DType::f64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

Problem problem(int64_t B, int64_t H, int64_t N, int64_t D, int64_t M, DType dtype = DType::f64) {
  const auto normal = [&](int64_t width, uint32_t lane) {
    return random_tensor({B, H, N, width}, lane, 1.0, 1e-2, dtype);
  };
  const Tensor beta = fractions({B, H, N}, 34, dtype);
  return {B, H, N, D, M, normal(D, 31), normal(D, 32), normal(M, 33), beta, normal(M, 35)};
}

double& at(std::vector<double>& x, int64_t i) { return x[static_cast<size_t>(i)]; }

// phi of all rows divided by their sums.
std::vector<double> unit_rows(const FeatureMap& map, const Tensor& x, Side side) {
  const int64_t P = x.size(0) * x.size(1), N = x.size(2), D = x.size(3), F = map.features(D);
  std::vector<double> phi = map.forward(x.reshape({P, N, D}), side, {0, x.size(1)}).rows.to_doubles();
  for (int64_t row = 0; row < P * N; ++row) {
    double sum = 0;
    for (int64_t f = 0; f < F; ++f) {
      double& value = at(phi, row * F + f);
      if (map.kind() == FeatureKind::logs) value = std::exp(value);
      sum += value;
    }
    for (int64_t f = 0; f < F; ++f) at(phi, row * F + f) = sum == 0 ? 0.0 : at(phi, row * F + f) / sum;
  }
  return phi;
}

// S += k^T beta (v - k S), y = q S, one position after the other; keys from `valid` on write nothing.
Tensor by_loops(const FeatureMap& map, const Problem& p, const std::vector<int32_t>& valid = {}) {
  std::vector<double> q = unit_rows(map, p.q, Side::query), k = unit_rows(map, p.k, Side::key);
  std::vector<double> v = p.v.to_doubles(), beta = p.beta.to_doubles(), y(v.size(), 0.0);
  const int64_t F = map.features(p.D), M = p.M;
  for (int64_t pair = 0; pair < p.B * p.H; ++pair) {
    std::vector<double> S(static_cast<size_t>(F * M), 0.0);
    const int64_t keys = valid.empty() ? p.N : valid[static_cast<size_t>(pair / p.H)];
    for (int64_t t = 0; t < p.N; ++t) {
      const int64_t row = pair * p.N + t;
      for (int64_t m = 0; m < M; ++m) {
        double bound = 0;
        for (int64_t f = 0; f < F; ++f) bound += at(S, f * M + m) * at(k, row * F + f);
        const double written = at(beta, row) * (at(v, row * M + m) - bound);
        for (int64_t f = 0; f < F && t < keys; ++f) at(S, f * M + m) += at(k, row * F + f) * written;
        for (int64_t f = 0; f < F; ++f) at(y, row * M + m) += at(S, f * M + m) * at(q, row * F + f);
      }
    }
  }
  return Tensor::from(y, p.v.shape());
}

struct Result {
  Tensor y, dq, dk, dv, dbeta;
};

template <typename Form>
Result run(const Form& form, const Problem& p) {
  const Var q(p.q, true), k(p.k, true), v(p.v, true), beta(p.beta, true);
  const Var y = form(q, k, v, beta);
  backward(y, p.dy);
  return {y.value(), q.grad(), k.grad(), v.grad(), beta.grad()};
}

Result chunked(const Map& map, const Problem& p, const EngineOptions& options = {}) {
  return run([&](const auto&... in) { return delta_attention(map, in..., options); }, p);
}

Result quadratic(const Map& map, const Problem& p, const Tensor& valid = {}) {
  return run([&](const auto&... in) { return delta_quadratic(map, in..., {true, valid}); }, p);
}

void expect_close(const Result& found, const Result& expected, double error, double gradient_error,
                  const std::string& where) {
  EXPECT_LE(relative_error(found.y, expected.y), error) << where;
  EXPECT_LE(relative_error(found.dq, expected.dq), gradient_error) << where;
  EXPECT_LE(relative_error(found.dk, expected.dk), gradient_error) << where;
  EXPECT_LE(relative_error(found.dv, expected.dv), gradient_error) << where;
  EXPECT_LE(relative_error(found.dbeta, expected.dbeta), gradient_error) << where;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  std::vector<unsigned char> x(a.bytes()), y(b.bytes());
  a.read(x.data());
  b.read(y.data());
  return a.shape() == b.shape() && x == y;
}

// x with rows [first, N) of sequence b (of all where b is below 0) replaced by `value`.
Tensor with_tail(const Tensor& x, int64_t first, double value, int64_t b = -1) {
  std::vector<double> values = x.to_doubles();
  const int64_t H = x.size(1), N = x.size(2), width = x.shape().product(3, x.shape().rank());
  for (int64_t i = 0; i < x.numel(); ++i)
    if (i / width % N >= first && (b < 0 || i / (width * N * H) == b)) at(values, i) = value;
  if (x.dtype() == DType::f64) return Tensor::from(values, x.shape());
  return Tensor::from(std::vector<float>(values.begin(), values.end()), x.shape());
}

std::vector<double> tail(const Tensor& x, int64_t b, int64_t first) {
  const std::vector<double> values = x.to_doubles();
  const int64_t H = x.size(1), N = x.size(2), width = x.shape().product(3, x.shape().rank());
  std::vector<double> found;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (i / width % N >= first && i / (width * N * H) == b) found.push_back(values[static_cast<size_t>(i)]);
  return found;
}

TEST(Delta, IsTheFormulaAtEveryLength) {
  for (const char* name : {"elu", "dpfp"}) {
    const Map map = named(name);
    for (const int64_t N : {1, 2, 15, 16, 17, 32, 33, 39, 40, 41, 79, 80, 81, 123, 255, 256, 257, 300}) {
      const Problem p = problem(1, 2, N, 4, 3);
      const Result exact = quadratic(map, p);
      const Tensor expected = by_loops(*map, p);
      EXPECT_LE(relative_error(exact.y, expected), 1e-13) << name << " quadratic " << N;
      for (const EngineOptions& options : {EngineOptions{true, {}, 40, 16}, EngineOptions{}}) {
        const std::string where = name + (" " + std::to_string(N)) + " / " + std::to_string(options.segment);
        const Result found = chunked(map, p, options);
        EXPECT_LE(relative_error(found.y, expected), 1e-13) << where;
        expect_close(found, exact, 1e-13, 1e-11, where);
      }
    }
  }
}

TEST(Delta, IsTheSameHoweverTheWorkIsCut) {
  const Map map = named("elu");
  const Problem p = problem(2, 2, 53, 3, 4);
  const Result exact = quadratic(map, p);
  for (const int64_t segment : {1, 2, 7, 29, 52, 53, 100})
    for (const int64_t chunk : {1, 3, 7, 17, 64})
      expect_close(chunked(map, p, {true, {}, segment, chunk}), exact, 1e-13, 1e-11,
                   std::to_string(segment) + " " + std::to_string(chunk));
}

// More (batch, head) pairs than one tile holds, the last tile not full, several segments.
TEST(Delta, ManyTiles) {
  const Map map = named("elu");
  const Problem p = problem(5, 7, 270, 16, 3);
  const Tensor expected = by_loops(*map, p);
  const int before = context().threads;
  set_threads(1);
  const Result one = chunked(map, p);
  set_threads(2);
  const Result two = chunked(map, p);
  set_threads(before);
  EXPECT_LE(relative_error(one.y, expected), 1e-13);
  expect_close(two, one, 1e-13, 1e-12, "two threads");
}

TEST(Delta, GradientsAreTrue) {
  const int64_t N = 11, D = 3, F = 5;
  const Problem p = problem(2, 2, N, D, 2);
  const Tensor valid = Tensor::from(std::vector<int32_t>{7, 11}, {2});
  for (const Tensor& present : {Tensor(), valid}) {
    for (const char* name : {"elu", "dpfp"}) {
      const Map map = named(name);
      const auto engine = [&](const std::vector<Var>& x) {
        return delta_attention(map, x[0], x[1], x[2], x[3], {true, present, 4, 3});
      };
      const auto definition = [&](const std::vector<Var>& x) {
        return delta_quadratic(map, x[0], x[1], x[2], x[3], {true, present});
      };
      for (const Function& form : {Function(engine), Function(definition)}) {
        const GradcheckResult result = gradcheck(form, {p.q, p.k, p.v, p.beta});
        EXPECT_LE(result.error, 1e-7) << name << ", input " << result.worst_input;
      }
    }
    // a map that gives logs and has a parameter
    const auto trained = [&](const std::vector<Var>& x) {
      return delta_attention(std::make_shared<TrainedLogs>(x[4]), x[0], x[1], x[2], x[3], {true, present, 4, 3});
    };
    const GradcheckResult result = gradcheck(trained, {p.q, p.k, p.v, p.beta, random_tensor({D, F}, 36)});
    EXPECT_LE(result.error, 1e-7) << "input " << result.worst_input;
  }
}

TEST(Delta, LogsAreTheFormula) {
  const Map map = std::make_shared<TrainedLogs>(Var(random_tensor({4, 6}, 36)));
  const Problem p = problem(2, 2, 90, 4, 3);
  expect_close(chunked(map, p, {true, {}, 40, 16}), quadratic(map, p), 1e-13, 1e-11, "logs");
  EXPECT_LE(relative_error(chunked(map, p).y, by_loops(*map, p)), 1e-13);
}

TEST(Delta, StepIsForward) {
  for (const char* name : {"elu", "dpfp"}) {
    const Map map = named(name);
    const Problem p = problem(2, 3, 90, 4, 5);
    const Tensor y = chunked(map, p, {true, {}, 40, 16}).y;
    const Tensor expected = y.clone();
    DeltaState state = start_delta(p.B, p.H, map->features(p.D), p.M, DType::f64);
    const auto row = [&](const Tensor& x, int64_t n) {  // [B,H,N,width] at n: [B,H,width]
      std::vector<double> values = x.to_doubles(), found;
      const int64_t width = x.shape().product(3, x.shape().rank());
      for (int64_t pair = 0; pair < p.B * p.H; ++pair)
        for (int64_t c = 0; c < width; ++c) found.push_back(at(values, (pair * p.N + n) * width + c));
      return x.shape().rank() == 3 ? Tensor::from(found, {p.B, p.H}) : Tensor::from(found, {p.B, p.H, width});
    };
    for (int64_t n = 0; n < p.N; ++n) {
      const Tensor found = delta_step(*map, state, row(p.q, n), row(p.k, n), row(p.v, n), row(p.beta, n));
      ASSERT_LE(relative_error(found, row(expected, n)), 1e-12) << name << " " << n;
    }
  }
}

TEST(Delta, TwoRunsGiveTheSameBits) {
  const Map map = named("elu");
  const Problem p = problem(2, 3, 300, 8, 8, DType::f32);
  const Result a = chunked(map, p), b = chunked(map, p);
  EXPECT_TRUE(same_bits(a.y, b.y));
  EXPECT_TRUE(same_bits(a.dq, b.dq));
  EXPECT_TRUE(same_bits(a.dk, b.dk));
  EXPECT_TRUE(same_bits(a.dv, b.dv));
  EXPECT_TRUE(same_bits(a.dbeta, b.dbeta));
}

// At every cut, also inside a chunk, whatever finite values stand behind it. (A NaN may pass inside BLAS's
// triangular solve: some processors' kernels multiply whole blocks.)
TEST(Delta, TheFutureNeverChangesThePast) {
  const Map map = named("elu");
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Problem p = problem(1, 2, 131, 8, 9, dtype);
    for (const EngineOptions& options : {EngineOptions{true, {}, 40, 16}, EngineOptions{}}) {
      const NoGrad no_grad;
      const auto forward = [&](const Problem& x) {
        return delta_attention(map, Var(x.q), Var(x.k), Var(x.v), Var(x.beta), options).value();
      };
      const std::vector<double> before = forward(p).to_doubles();
      for (int64_t cut = 1; cut < p.N; cut += 3) {
        for (const double value : {0.0, 1e6, -1e9}) {
          Problem changed = p;
          for (Tensor* x : {&changed.q, &changed.k, &changed.v, &changed.beta}) *x = with_tail(*x, cut, value);
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

TEST(Delta, PaddingWritesNothingAndIsNeverRead) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Var width(random_tensor({3, 6}, 36), true);
  for (const Map& map : {named("elu"), named("dpfp"), Map(std::make_shared<TrainedLogs>(width))}) {
    const Problem p = problem(4, 2, 97, 3, 4);
    const std::vector<int32_t> counts = {0, 23, 80, 97};
    const Tensor valid = Tensor::from(counts, {4});
    const Tensor expected = by_loops(*map, p, counts);
    Problem wild = p;
    for (int64_t b = 0; b < p.B; ++b)
      for (Tensor* x : {&wild.k, &wild.v, &wild.beta}) *x = with_tail(*x, counts[static_cast<size_t>(b)], nan, b);
    const Problem given{
        wild.B, wild.H, wild.N, wild.D, wild.M, wild.q, wild.k.clone(), wild.v.clone(), wild.beta.clone(),
        wild.dy};
    for (const EngineOptions& options : {EngineOptions{true, valid, 40, 16}, EngineOptions{true, valid, 0, 0}}) {
      width.clear_grad();
      const Result clean = chunked(map, p, options);
      const Tensor dwidth = width.grad();
      width.clear_grad();
      const Result found = chunked(map, wild, options);
      EXPECT_TRUE(!dwidth.defined() || same_bits(width.grad(), dwidth));
      EXPECT_LE(relative_error(found.y, expected), 1e-13);
      EXPECT_TRUE(same_bits(found.y, clean.y));
      EXPECT_TRUE(same_bits(found.dq, clean.dq));
      EXPECT_TRUE(same_bits(found.dk, clean.dk));
      EXPECT_TRUE(same_bits(found.dv, clean.dv));
      EXPECT_TRUE(same_bits(found.dbeta, clean.dbeta));
      expect_close(found, quadratic(map, wild, valid), 1e-13, 1e-11, "quadratic");
      for (int64_t b = 0; b < p.B; ++b)
        for (const Tensor& gradient : {found.dk, found.dv, found.dbeta})
          for (const double value : tail(gradient, b, counts[static_cast<size_t>(b)])) ASSERT_EQ(value, 0.0);
    }
    EXPECT_TRUE(same_bits(wild.k, given.k) && same_bits(wild.v, given.v) && same_bits(wild.beta, given.beta));
  }
}

// A row of features whose sum is exactly 0: the query reads 0, the key writes nothing, and neither has a
// gradient.
TEST(Delta, ARowWithoutFeaturesIsZero) {
  const Map map = std::make_shared<CutOff>();
  Problem p = problem(1, 2, 50, 3, 4);
  const auto negative = [&](const Tensor& x, int64_t every) {
    std::vector<double> values = x.to_doubles();
    for (int64_t i = 0; i < x.numel(); ++i)
      at(values, i) = i / p.D % p.N % every == 0 ? -std::abs(at(values, i)) : std::abs(at(values, i));
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

  DeltaState state = start_delta(1, 1, 3, 2, DType::f64);
  const Tensor nothing = Tensor::full({1, 1, 3}, DType::f64, -1.0);
  const Tensor something = Tensor::full({1, 1, 3}, DType::f64, 1.0);
  const Tensor v = Tensor::full({1, 1, 2}, DType::f64, 1.0), beta = Tensor::full({1, 1}, DType::f64, 0.5);
  EXPECT_EQ(delta_step(*map, state, something, nothing, v, beta).to_doubles(), (std::vector<double>{0, 0}));
  EXPECT_EQ(delta_step(*map, state, nothing, something, v, beta).to_doubles(), (std::vector<double>{0, 0}));
  EXPECT_EQ(state.state.to_doubles(), std::vector<double>(6, 0.5 / 3));
}

// The rule as it is meant: with orthogonal keys and beta = 1 a later value replaces an earlier one.
TEST(Delta, ANewValueReplacesTheOldOne) {
  const Map map = std::make_shared<CutOff>();
  const Tensor k = Tensor::from(std::vector<double>{1, 0, 0, 1, 1, 0, 0, 0}, {1, 1, 4, 2});
  const Tensor q = Tensor::from(std::vector<double>{1, 0, 1, 0, 1, 0, 0, 1}, {1, 1, 4, 2});
  const Tensor v = Tensor::from(std::vector<double>{3, 4, 5, 6}, {1, 1, 4, 1});
  const Var y = delta_attention(map, Var(q), Var(k), Var(v), Var(Tensor::full({1, 1, 4}, DType::f64, 1.0)), {});
  EXPECT_EQ(y.value().to_doubles(), (std::vector<double>{3, 3, 5, 4}));
}

TEST(Delta, FloatAtLength4096) {
  const Map map = named("elu");
  const Problem p = problem(1, 2, 4096, 16, 16, DType::f32);
  const auto wide = [](const Tensor& x) { return Tensor::from(x.to_doubles(), x.shape()); };
  const Problem exact{p.B, p.H, p.N, p.D, p.M, wide(p.q), wide(p.k), wide(p.v), wide(p.beta), wide(p.dy)};
  EXPECT_LE(relative_error(chunked(map, exact).y, by_loops(*map, exact)), 1e-12);
  expect_close(chunked(map, p), chunked(map, exact), 1e-4, 1e-3, "float");
}

// What the backward holds besides its gradients: of n segments about 2 sqrt(n) states.
TEST(Delta, MemoryGrowsWithTheRootOfTheLength) {
  const Map map = named("square");  // F = D^2: states are large beside everything else
  const auto extra_states = [&](int64_t N) {
    const Problem p = problem(1, 1, N, 16, 32);
    chunked(map, p, {true, {}, 4, 4});
    const Var q(p.q, true), k(p.k, true), v(p.v, true), beta(p.beta, true);
    const Var y = delta_attention(map, q, k, v, beta, {true, {}, 4, 4});
    reset_cpu_peak();
    const size_t before = cpu_memory().held;
    backward(y, p.dy);
    return static_cast<double>(cpu_memory().peak - before) / (16 * 16 * 32 * sizeof(double));
  };
  const int before = context().threads;
  set_threads(1);  // each has a workspace
  for (const int64_t n : {25, 100, 400}) {
    EXPECT_LE(extra_states(4 * n), 3 * std::sqrt(static_cast<double>(n)) + 3) << n;
  }
  set_threads(before);
}

TEST(Delta, NothingInNothingOut) {
  const Map map = named("elu");
  EXPECT_EQ(chunked(map, problem(2, 3, 0, 5, 7)).y.shape(), (Shape{2, 3, 0, 7}));
  EXPECT_EQ(chunked(map, problem(0, 3, 4, 5, 7)).dk.shape(), (Shape{0, 3, 4, 5}));
}

TEST(Delta, ErrorsNameWhatDoesNotFit) {
  const Map map = named("elu");
  const Shape keys{2, 3, 5, 4}, values{2, 3, 5, 6}, gates{2, 3, 5};
  const Tensor three = Tensor::zeros({3}, DType::i32);
  struct Case {
    Shape q, k, v, beta;
    const char* expected;
    EngineOptions options;
    DType dtype = DType::f64;
  };
  for (const Case& c : {
           Case{keys, keys, values, gates, "", {}},
           Case{{2, 3, 4}, keys, values, gates, "[2,3,4]", {}},
           Case{keys, {2, 3, 6, 4}, values, gates, "k has shape [2,3,6,4], expected [2,3,5,4]", {}},
           Case{keys, keys, {2, 3, 7, 6}, gates, "v has shape [2,3,7,6]", {}},
           Case{keys, keys, values, {2, 3, 6}, "beta has shape [2,3,6], expected [2,3,5]", {}},
           Case{keys, keys, values, gates, "f64 and f32", {}, DType::f32},
           Case{keys, keys, values, gates, "causal only", {false, {}, 0, 0}},
           Case{keys, keys, values, gates, "valid has shape [3], expected [2]", {true, three, 0, 0}},
       }) {
    const auto zeros = [](const Shape& shape, DType dtype) { return Var(Tensor::zeros(shape, dtype)); };
    const Var q = zeros(c.q, DType::f64), k = zeros(c.k, c.dtype), v = zeros(c.v, DType::f64);
    const Var beta = zeros(c.beta, DType::f64);
    for (const bool definition : {false, true}) {
      std::string message;
      try {
        if (definition)
          delta_quadratic(map, q, k, v, beta, {c.options.causal, c.options.valid});
        else
          delta_attention(map, q, k, v, beta, c.options);
      } catch (const Error& error) {
        message = error.what();
      }
      EXPECT_EQ(message.empty(), *c.expected == '\0') << message;
      EXPECT_NE(message.find(c.expected), std::string::npos) << message << " without " << c.expected;
    }
  }
}

}  // namespace
}  // namespace linea

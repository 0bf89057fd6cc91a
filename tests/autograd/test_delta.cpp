// The delta rule in all its forms is the formula: outputs, gradients and steps, however the work is
// cut.
#include "tensor/context.h"
#include "tests/autograd/delta_problem.h"

namespace linea::delta_tests {
namespace {

// Features, and whether the state decays.
const std::vector<std::pair<const char*, bool>> kRules = {
    {"elu", false}, {"dpfp", false}, {"elu", true}, {"dpfp", true}};

TEST(Delta, MatchesTheFormulaAtEveryLength) {
  for (const auto& [name, decays] : kRules) {
    const Map map = named(name);
    for (const int64_t N :
         {1, 2, 15, 16, 17, 32, 33, 39, 40, 41, 79, 80, 81, 123, 255, 256, 257, 300}) {
      const Problem p = problem(1, 2, N, 4, 3, DType::f64, decays);
      const Result exact = quadratic(map, p);
      const Tensor expected = by_loops(*map, p);
      EXPECT_LE(relative_error(exact.y, expected), 1e-13) << name << " quadratic " << N;
      for (const LinearAttentionOptions& options :
           {LinearAttentionOptions{true, {}, 40, 16}, LinearAttentionOptions{}}) {
        const std::string where =
            name + (" " + std::to_string(N)) + " / " + std::to_string(options.segment);
        const Result found = chunked(map, p, options);
        EXPECT_LE(relative_error(found.y, expected), 1e-13) << where;
        expect_close(found, exact, 1e-13, 1e-11, where);
      }
    }
  }
}

TEST(Delta, DoesNotDependOnTheSplit) {
  const Map map = named("elu");
  for (const bool decays : {false, true}) {
    const Problem p = problem(2, 2, 53, 3, 4, DType::f64, decays);
    const Result exact = quadratic(map, p);
    for (const int64_t segment : {1, 2, 7, 29, 52, 53, 100})
      for (const int64_t chunk : {1, 3, 7, 17, 64})
        expect_close(chunked(map, p, {true, {}, segment, chunk}), exact, 1e-13, 1e-11,
                     std::to_string(segment) + " " + std::to_string(chunk));
  }
}

// More (batch, head) pairs than one tile holds, the last tile not full, several segments.
TEST(Delta, ManyTiles) {
  const Map map = named("elu");
  for (const bool decays : {false, true}) {
    const Problem p = problem(5, 7, 270, 16, 3, DType::f64, decays);
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
}

TEST(Delta, PassesGradcheckInDouble) {
  const int64_t N = 11, D = 3, F = 5;
  const Problem p = problem(2, 2, N, D, 2);
  const Tensor valid = Tensor::from(std::vector<int32_t>{7, 11}, {2});
  for (const Tensor& present : {Tensor(), valid}) {
    for (const char* name : {"elu", "dpfp"}) {
      const Map map = named(name);
      const auto chunked_form = [&](const std::vector<Var>& x) {
        return delta(map, {x[0], x[1], x[2], x[3]}, {true, present, 4, 3});
      };
      const auto naive_form = [&](const std::vector<Var>& x) {
        return definition(map, {x[0], x[1], x[2], x[3]}, {true, present});
      };
      for (const Function& form : {Function(chunked_form), Function(naive_form)}) {
        const GradcheckResult result = gradcheck(form, {p.q, p.k, p.v, p.beta});
        EXPECT_LE(result.error, 1e-7) << name << ", input " << result.worst_input;
      }
    }
    // a map that gives logs and has a parameter
    const auto trained = [&](const std::vector<Var>& x) {
      return delta(std::make_shared<TrainedLogs>(x[4]), {x[0], x[1], x[2], x[3]},
                   {true, present, 4, 3});
    };
    const GradcheckResult result =
        gradcheck(trained, {p.q, p.k, p.v, p.beta, random_tensor({D, F}, 36)});
    EXPECT_LE(result.error, 1e-7) << "input " << result.worst_input;
  }
}

TEST(Delta, DecaysPassGradcheckInDouble) {
  const Map map = named("elu");
  const Problem p = problem(2, 2, 11, 3, 2, DType::f64, true);
  const Tensor valid = Tensor::from(std::vector<int32_t>{7, 11}, {2});
  for (const Tensor& present : {Tensor(), valid}) {
    const GradcheckResult result = gradcheck(
        [&](const std::vector<Var>& x) {
          return delta(map, {x[0], x[1], x[2], x[3]}, {true, present, 4, 3});
        },
        {p.q, p.k, p.v, p.beta});
    EXPECT_LE(result.error, 1e-7) << "input " << result.worst_input;
  }
}

// A state that does not decay is that of the delta rule, to the bit.
TEST(Delta, ADecayOfOneIsNone) {
  for (const char* name : {"elu", "dpfp"})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Map map = named(name);
      const Problem plain = problem(2, 2, 300, 8, 5, dtype);
      Problem p = plain;
      std::vector<double> gates;
      for (const double beta : plain.beta.to_doubles()) gates.insert(gates.end(), {beta, 1.0});
      p.beta = Tensor::from(gates, {p.B, p.H, p.N, 2}, dtype);
      for (const LinearAttentionOptions& options :
           {LinearAttentionOptions{true, {}, 40, 16}, LinearAttentionOptions{}}) {
        const Result expected = chunked(map, plain, options), found = chunked(map, p, options);
        EXPECT_EQ(found.y.to_doubles(), expected.y.to_doubles());
        EXPECT_EQ(found.dq.to_doubles(), expected.dq.to_doubles());
        EXPECT_EQ(found.dk.to_doubles(), expected.dk.to_doubles());
        EXPECT_EQ(found.dv.to_doubles(), expected.dv.to_doubles());
        std::vector<double> dbeta;
        const std::vector<double> dgates = found.dbeta.to_doubles();
        for (size_t i = 0; i < dgates.size(); i += 2) dbeta.push_back(dgates[i]);
        EXPECT_EQ(dbeta, expected.dbeta.to_doubles());
      }
    }
}

// Decays so small that the logistic function rounds them to 0 forget all before them.
TEST(Delta, ForgetsAll) {
  const Map map = named("elu");
  Problem p = problem(1, 2, 90, 4, 3, DType::f64, true);
  std::vector<double> gates = p.beta.to_doubles();
  for (size_t i = 1; i < gates.size(); i += 2 * 23) gates[i] = 0;
  p.beta = Tensor::from(gates, p.beta.shape());
  const Result found = chunked(map, p, {true, {}, 40, 16});
  expect_close(found, quadratic(map, p), 1e-13, 1e-11, "quadratic");
  EXPECT_LE(relative_error(found.y, by_loops(*map, p)), 1e-13);
}

TEST(Delta, LogsMatchTheFormula) {
  const Map map = std::make_shared<TrainedLogs>(Var(random_tensor({4, 6}, 36)));
  const Problem p = problem(2, 2, 90, 4, 3);
  expect_close(chunked(map, p, {true, {}, 40, 16}), quadratic(map, p), 1e-13, 1e-11, "logs");
  EXPECT_LE(relative_error(chunked(map, p).y, by_loops(*map, p)), 1e-13);
}

TEST(Delta, StepsMatchForward) {
  for (const auto& [name, decays] : kRules) {
    const Map map = named(name);
    const Problem p = problem(2, 3, 90, 4, 5, DType::f64, decays);
    const Tensor y = chunked(map, p, {true, {}, 40, 16}).y;
    const Tensor expected = y.clone();
    DeltaState state({p.B, p.H, map->features(p.D), p.M}, DType::f64);
    const auto row = [&](const Tensor& x, int64_t n) {  // [B,H,N,width] at n: [B,H,1,width]
      std::vector<double> values = x.to_doubles(), found;
      const int64_t width = x.shape().product(3, x.shape().rank());
      for (int64_t pair = 0; pair < p.B * p.H; ++pair)
        for (int64_t c = 0; c < width; ++c)
          found.push_back(at(values, (pair * p.N + n) * width + c));
      return Tensor::from(found, x.shape().with(2, 1));
    };
    for (int64_t n = 0; n < p.N; ++n) {
      const AttentionInputs in{Var(row(p.q, n)), Var(row(p.k, n)), Var(row(p.v, n)),
                               Var(row(p.beta, n))};
      const Tensor found = rule_of(in)->step(*map, state, in);
      ASSERT_LE(relative_error(found, row(expected, n)), 1e-12) << name << " " << n;
    }
  }
}

// The rule as it is meant: with orthogonal keys and beta = 1 a later value replaces an earlier one.
TEST(Delta, ANewValueReplacesTheOldOne) {
  const Map map = std::make_shared<CutOff>();
  const Tensor k = Tensor::from(std::vector<double>{1, 0, 0, 1, 1, 0, 0, 0}, {1, 1, 4, 2});
  const Tensor q = Tensor::from(std::vector<double>{1, 0, 1, 0, 1, 0, 0, 1}, {1, 1, 4, 2});
  const Tensor v = Tensor::from(std::vector<double>{3, 4, 5, 6}, {1, 1, 4, 1});
  const Var y =
      delta(map, {Var(q), Var(k), Var(v), Var(Tensor::full({1, 1, 4, 1}, DType::f64, 1.0))}, {});
  EXPECT_EQ(y.value().to_doubles(), (std::vector<double>{3, 3, 5, 4}));
}

TEST(Delta, FloatAtLength4096) {
  const Map map = named("elu");
  const auto wide = [](const Tensor& x) { return Tensor::from(x.to_doubles(), x.shape()); };
  for (const bool decays : {false, true}) {
    const Problem p = problem(1, 2, 4096, 16, 16, DType::f32, decays);
    const Problem exact{p.B,       p.H,       p.N,       p.D,          p.M,
                        wide(p.q), wide(p.k), wide(p.v), wide(p.beta), wide(p.dy)};
    EXPECT_LE(relative_error(chunked(map, exact).y, by_loops(*map, exact)), 1e-12);
    expect_close(chunked(map, p), chunked(map, exact), 1e-4, 1e-3, "float");
  }
}

TEST(Delta, LogitsGetTheirGradient) {
  const Map map = named("elu");
  const Tensor x = random_tensor({2, 2, 11, 3}, 1, 1.0, 0.05),
               k = random_tensor({2, 2, 11, 3}, 2, 1.0, 0.05), v = random_tensor({2, 2, 11, 4}, 3),
               valid = Tensor::from(std::vector<int32_t>{11, 6}, {2});
  for (const Shape& shape : {Shape{2, 2, 11, 1}, Shape{2, 2, 11, 2}})
    for (const bool exact : {false, true}) {
      const GradcheckResult result = gradcheck(
          [&](const std::vector<Var>& leaf) {
            AttentionInputs in{leaf[0], leaf[1], leaf[2], leaf[3]};
            in.gate_form = GateForm::logit;
            return exact ? definition(map, in, {true, valid}) : delta(map, in, {true, valid, 4, 2});
          },
          {x, k, v, random_tensor(shape, 4, 3.0)});
      EXPECT_LE(result.error, 1e-7) << result.worst_input << " " << shape.str() << exact;
    }
}

}  // namespace
}  // namespace linea::delta_tests

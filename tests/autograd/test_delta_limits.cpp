// The delta rule at its limits: memory that its backward holds, sizes of 0, and shapes that do not
// fit.
#include "tensor/caching_allocator.h"
#include "tensor/context.h"
#include "tests/autograd/delta_problem.h"

namespace linea::delta_tests {
namespace {

// What the backward holds besides its gradients: of n segments about 2 sqrt(n) states.
TEST(Delta, MemoryGrowsWithTheRootOfTheLength) {
  const Map map = named("square");  // F = D^2: states are larger than everything else
  const auto extra_states = [&](int64_t N) {
    const Problem p = problem(1, 1, N, 16, 32);
    chunked(map, p, {true, {}, 4, 4});
    const Var q(p.q, true), k(p.k, true), v(p.v, true), beta(p.beta, true);
    const Var y = delta(map, {q, k, v, beta}, {true, {}, 4, 4});
    cpu_allocator().reset_peak();
    const size_t before = cpu_allocator().use().held;
    backward(y, p.dy);
    return static_cast<double>(cpu_allocator().use().peak - before) /
           (16 * 16 * 32 * sizeof(double));
  };
  const int before = context().threads;
  set_threads(1);  // each has a workspace
  for (const int64_t n : {25, 100, 400}) {
    EXPECT_LE(extra_states(4 * n), 3 * std::sqrt(static_cast<double>(n)) + 3) << n;
  }
  set_threads(before);
}

TEST(Delta, EmptyInput) {
  const Map map = named("elu");
  EXPECT_EQ(chunked(map, problem(2, 3, 0, 5, 7)).y.shape(), (Shape{2, 3, 0, 7}));
  EXPECT_EQ(chunked(map, problem(0, 3, 4, 5, 7)).dk.shape(), (Shape{0, 3, 4, 5}));
}

TEST(Delta, ErrorsNameWhatDoesNotFit) {
  const Map map = named("elu");
  const Shape keys{2, 3, 5, 4}, values{2, 3, 5, 6}, gates{2, 3, 5, 1};
  const Tensor three = Tensor::zeros({3}, DType::i32);
  struct Case {
    Shape q, k, v, beta;
    const char* expected;
    LinearAttentionOptions options;
    DType dtype = DType::f64;
  };
  for (const Case& c : {
           Case{keys, keys, values, gates, "", {}},
           Case{{2, 3, 4}, keys, values, gates, "[2,3,4]", {}},
           Case{keys, {2, 3, 6, 4}, values, gates, "k has shape [2,3,6,4], expected [2,3,5,4]", {}},
           Case{keys, keys, {2, 3, 7, 6}, gates, "v has shape [2,3,7,6]", {}},
           Case{keys,
                keys,
                values,
                {2, 3, 6, 1},
                "gate has shape [2,3,6,1], expected [2,3,5,1]",
                {}},
           Case{keys, keys, values, gates, "f64 and f32", {}, DType::f32},
           Case{keys, keys, values, gates, "causal only", {false, {}, 0, 0}},
           Case{
               keys, keys, values, gates, "valid has shape [3], expected [2]", {true, three, 0, 0}},
       }) {
    const auto zeros = [](const Shape& shape, DType dtype) {
      return Var(Tensor::zeros(shape, dtype));
    };
    const Var q = zeros(c.q, DType::f64), k = zeros(c.k, c.dtype), v = zeros(c.v, DType::f64);
    const Var beta = zeros(c.beta, DType::f64);
    for (const bool naive_form : {false, true}) {
      std::string message;
      try {
        if (naive_form)
          definition(map, {q, k, v, beta}, {c.options.causal, c.options.valid});
        else
          delta(map, {q, k, v, beta}, c.options);
      } catch (const Error& error) {
        message = error.what();
      }
      EXPECT_EQ(message.empty(), *c.expected == '\0') << message;
      EXPECT_NE(message.find(c.expected), std::string::npos)
          << message << " without " << c.expected;
    }
  }
}

}  // namespace
}  // namespace linea::delta_tests

// The branches of a Transformer's block as single ops: their gradients against finite differences,
// and the same numbers as the chain of small ops that each stands for, also where a branch is done
// in several blocks of rows.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea {
namespace {

using Vars = std::vector<Var>;

// Takes parameters off a list: (weight, bias) or (weight, bias), the bias only where there are any.
class Taken {
 public:
  Taken(const Vars& from, size_t first, bool bias) : from_(from), next_(first), bias_(bias) {}
  template <typename Pair>
  Pair take() {
    Pair pair{from_[next_++], Var()};
    if (bias_) pair.bias = from_[next_++];
    return pair;
  }

 private:
  const Vars& from_;
  size_t next_;
  bool bias_;
};

Var apply(const LinearVars& linear, const Var& x) {
  const Var y = matmul(x, linear.weight, false, true);
  return linear.bias.defined() ? add_rows(y, linear.bias) : y;
}

// The norm of a head alone, and the gate, in ops on the host's numbers: the sums of squares come from a
// product with blocks of ones.
Var gated_norm_chain(const Var& y, const Var& norm, const Var& gate, int64_t heads) {
  const int64_t C = y.size(2), D = C / heads;
  std::vector<double> blocks;
  for (int64_t i = 0; i < C * C; ++i)
    blocks.push_back(i / C / D == i % C / D ? 1.0 / static_cast<double>(D) : 0);
  const Var z = multiply(y, multiply(gate, pointwise(Pointwise::sigmoid, gate)));
  if (!norm.defined()) return z;
  const Var squares = matmul(multiply(y, y), Var(Tensor::from(blocks, {C, C})));
  const Var epsilon(Tensor::full({C}, DType::f64, 1e-6));
  const Var inverse = exp(scale(pointwise(Pointwise::log_gate, add_rows(squares, epsilon)), -0.5));
  const Var ones(Tensor::full({1, y.size(1), 1}, DType::f64, 1.0));
  return multiply(multiply(z, inverse), matmul(ones, reshape(norm, {1, 1, C})));
}

struct Branch {
  const char* name;
  Function one, chain;
  std::vector<Tensor> inputs;
};

std::vector<Tensor> joined(std::vector<Tensor> start,
                           const std::vector<std::vector<Tensor>>& rest) {
  for (const std::vector<Tensor>& list : rest) start.insert(start.end(), list.begin(), list.end());
  return start;
}

// The feed-forward branch of inputs residual, x, norm, up, down: with its residual, with x as its
// residual, and without one.
std::vector<Branch> feed_forward_branches(std::vector<Tensor> inputs, bool bias, float rate) {
  std::vector<Branch> result;
  const auto add_branch = [&](const char* name, size_t first, auto residual) {
    const auto chain = [=](const Vars& v) {
      Taken taken(v, first + 1, bias);
      const auto n = taken.take<NormVars>();
      const auto up = taken.take<LinearVars>();
      const Var hidden =
          pointwise(Pointwise::gelu, apply(up, layer_norm(v[first], n.weight, n.bias)));
      const Var y = dropout(apply(taken.take<LinearVars>(), hidden), rate, 3);
      return residual(v).defined() ? add(residual(v), y) : y;
    };
    const auto one = [=](const Vars& v) {
      Taken taken(v, first + 1, bias);
      const auto n = taken.take<NormVars>();
      const auto up = taken.take<LinearVars>();
      return add_feed_forward(residual(v), v[first], n, up, taken.take<LinearVars>(), {rate, 3});
    };
    result.push_back({name, one, chain, inputs});
  };
  const auto first_input = [](const Vars& v) { return v[0]; };
  add_branch("add_feed_forward", 1, first_input);
  inputs.erase(inputs.begin());
  add_branch("add_feed_forward to its input", 0, first_input);
  add_branch("add_feed_forward without a residual", 0, [](const Vars&) { return Var(); });
  return result;
}

// Outputs of attention with and without a norm, of heads of `in` channels, and with a residual.
std::vector<Branch> gated_branches(int64_t R, int64_t in, int64_t out, bool bias, float rate) {
  const int64_t heads = 3, C = heads * in;
  const auto draw = [](const Shape& shape, uint32_t id) { return random_tensor(shape, id); };
  std::vector<Tensor> inputs = {draw({1, R, out}, 41), draw({1, R, C}, 42), draw({1, R, C}, 43),
                                draw({C}, 44), draw({out, C}, 45)};
  if (bias) inputs.push_back(draw({out}, 46));
  std::vector<Branch> result;
  for (const bool normed : {true, false}) {
    const auto norm = [=](const Vars& v) { return normed ? v[3] : Var(); };
    const auto linear = [=](const Vars& v) {
      return LinearVars{v[4 - !normed], bias ? v[5 - !normed] : Var()};
    };
    if (!normed) inputs.erase(inputs.begin() + 3);
    result.push_back(
        {normed ? "add_gated_linear" : "add_gated_linear without a norm",
         [=](const Vars& v) {
           return add_gated_linear(v[0], v[1], norm(v), v[2], heads, linear(v), {rate, 3});
         },
         [=](const Vars& v) {
           const Var z = gated_norm_chain(v[1], norm(v), v[2], heads);
           return add(v[0], dropout(apply(linear(v), z), rate, 3));
         },
         inputs});
  }
  return result;
}

// Every branch for R rows of `in` numbers, `out` or `wide` of them made.
std::vector<Branch> branches(int64_t R, int64_t in, int64_t out, int64_t wide, bool bias,
                             float rate) {
  uint32_t stream_id = 1;
  const auto draw = [&stream_id](const Shape& shape) { return random_tensor(shape, stream_id++); };
  std::vector<Tensor> norm = {draw({in})}, linear = {draw({out, in})}, up = {draw({wide, in})},
                      down = {draw({in, wide})};
  if (bias) {
    norm.push_back(draw({in}));
    linear.push_back(draw({out}));
    up.push_back(draw({wide}));
    down.push_back(draw({in}));
  }
  const Tensor x = draw({1, R, in}), residual = draw({1, R, out});
  std::vector<Branch> result = {
      {"norm_linear",
       [=](const Vars& v) {
         Taken taken(v, 1, bias);
         const auto n = taken.take<NormVars>();
         return norm_linear(v[0], n, taken.take<LinearVars>());
       },
       [=](const Vars& v) {
         Taken taken(v, 1, bias);
         const auto n = taken.take<NormVars>();
         return apply(taken.take<LinearVars>(), layer_norm(v[0], n.weight, n.bias));
       },
       joined({x}, {norm, linear})},
      {"add_linear",
       [=](const Vars& v) {
         return add_linear(v[0], v[1], Taken(v, 2, bias).take<LinearVars>(), {rate, 3});
       },
       [=](const Vars& v) {
         return add(v[0], dropout(apply(Taken(v, 2, bias).take<LinearVars>(), v[1]), rate, 3));
       },
       joined({residual, x}, {linear})},
      {"add_linear without a residual",
       [=](const Vars& v) {
         return add_linear(Var(), v[0], Taken(v, 1, bias).take<LinearVars>(), {rate, 3});
       },
       [=](const Vars& v) {
         return dropout(apply(Taken(v, 1, bias).take<LinearVars>(), v[0]), rate, 3);
       },
       joined({x}, {linear})}};
  for (const Branch& branch :
       feed_forward_branches(joined({draw({1, R, in}), x}, {norm, up, down}), bias, rate))
    result.push_back(branch);
  for (const Branch& branch : gated_branches(R, in, out, bias, rate)) result.push_back(branch);
  return result;
}

TEST(Layers, PassesGradcheckInDouble) {
  for (const bool bias : {true, false})
    for (const float rate : {0.0f, 0.4f})
      for (const Branch& branch : branches(7, 5, 3, 9, bias, rate)) {
        const GradcheckResult result = gradcheck(branch.one, branch.inputs);
        EXPECT_LE(result.error, 1e-7) << branch.name << ", input " << result.worst_input;
      }
}

void expect_same(const Branch& branch) {
  const auto run = [&](const Function& f) {
    Vars inputs;
    for (const Tensor& x : branch.inputs) inputs.emplace_back(x, true);
    const Var y = f(inputs);
    backward(y, random_tensor(y.shape(), 77));
    std::vector<Tensor> results = {y.value()};
    for (const Var& input : inputs) results.push_back(input.grad());
    return results;
  };
  const std::vector<Tensor> one = run(branch.one), chain = run(branch.chain);
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_LE(relative_error(one[i], chain[i]), 1e-12) << branch.name << ", result " << i;
}

TEST(Layers, MatchTheirChainsOfOps) {
  for (const float rate : {0.0f, 0.4f})
    for (const Branch& branch : branches(67, 24, 40, 56, true, rate)) expect_same(branch);
}

// Matrices so wide that 64 rows fill a block: rows 0 .. 63, 64 .. 127 and two more. An odd width
// puts a border of blocks inside four numbers of a dropout.
TEST(Layers, AreTheSameInSeveralBlocks) {
  for (const Branch& branch : branches(130, 5, 9001, 9001, true, 0.4f)) expect_same(branch);
}

Tensor floats(const Tensor& x) {
  const std::vector<double> values = x.to_doubles();
  return Tensor::from(std::vector<float>(values.begin(), values.end()), x.shape());
}

// y, and the gradients of the inputs that `which` chooses.
template <typename Which>
std::vector<std::vector<double>> results_of(const Branch& branch, bool of_floats,
                                            const Which& which) {
  const auto typed = [&](const Tensor& x) { return of_floats ? floats(x) : x; };
  Vars inputs;
  for (const Tensor& x : branch.inputs) inputs.emplace_back(typed(x), true);
  const Var y = branch.one(inputs);
  backward(y, typed(random_tensor(y.shape(), 77)));
  std::vector<std::vector<double>> results = {y.value().to_doubles()};
  for (const Var& input : inputs)
    if (which(input)) results.push_back(input.grad().to_doubles());
  return results;
}

// Many rows of small weights, whose gradients are summed in groups: a thread may compute a group by
// itself, or all threads one group after another. In double, in float, in float with rounded factors.
TEST(Layers, HaveTheSameBitsAtEveryNumberOfThreads) {
  const int before = context().threads;
  const auto all = [](const Var&) { return true; };
  // The second: a product of all rows is packed, that of a group is left to BLAS.
  std::vector<Branch> all_branches = branches(650, 32, 40, 96, true, 0.4f);
  for (const Branch& branch : branches(650, 20, 20, 20, true, 0.4f)) all_branches.push_back(branch);
  for (const Branch& branch : all_branches) {
    expect_same(branch);
    for (const FloatProducts products : {FloatProducts::exact, FloatProducts::rounded})
      for (const bool of_floats : {false, true}) {
        context().products = products;
        set_threads(1);
        const auto of_one = results_of(branch, of_floats, all);
        for (const int threads : {2, 3, 5}) {
          set_threads(threads);
          EXPECT_EQ(results_of(branch, of_floats, all), of_one)
              << branch.name << " on " << threads << " threads";
        }
        set_threads(before);
      }
    context().products = FloatProducts::exact;
  }
}

// Layers of float share packed weights: the rows of y and dx have the bits of a single block.
TEST(Layers, HaveTheSameBitsInSeveralBlocks) {
  if (std::string(cpu_isa()) == "128-bit")
    GTEST_SKIP() << "the base build computes products by BLAS";
  const auto of_rows = [](const Var& input) { return input.shape().rank() == 3; };
  const auto run = [&](FloatProducts products, int64_t block) {
    context().products = products;
    context().sizes.block = block;
    std::vector<std::vector<double>> results;
    for (const Branch& branch : branches(150, 64, 64, 96, true, 0))
      for (const std::vector<double>& result : results_of(branch, true, of_rows))
        results.push_back(result);
    return results;
  };
  const int64_t before = context().sizes.block;
  for (const FloatProducts products : {FloatProducts::exact, FloatProducts::rounded}) {
    const auto one = run(products, before), three = run(products, 1);
    EXPECT_EQ(one, three);
  }
  context().sizes.block = before;
  context().products = FloatProducts::exact;
}

TEST(Layers, RefuseMismatchedShapes) {
  const Var x(random_tensor({2, 3, 4}, 1)), residual(random_tensor({2, 3, 5}, 2)),
      weight(random_tensor({6, 4}, 3));
  EXPECT_THROW(add_linear(residual, x, {weight, Var()}), Error);
  const Var norm(random_tensor({4}, 5)), down(random_tensor({4, 6}, 6));
  EXPECT_THROW(add_feed_forward(residual, x, {norm, Var()}, {weight, Var()}, {down, Var()}), Error);
  EXPECT_THROW(norm_linear(residual, {Var(random_tensor({5}, 4)), Var()}, {weight, Var()}), Error);
}

}  // namespace
}  // namespace linea

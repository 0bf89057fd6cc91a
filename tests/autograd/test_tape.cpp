// The tape: what it adds up, what it frees, what it refuses.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/caching_allocator.h"
#include "tensor/ops.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

Var leaf(const std::vector<double>& values) {
  return Var(Tensor::from(values, {static_cast<int64_t>(values.size())}), true);
}

template <typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// An op whose backward answers with what it is given.
Var answering(const Var& x, const std::vector<Gradient>& answer) {
  return Var::from_op("odd_op", ops::scale(x.value(), 1), {x},
                      [answer](const Tensor&) { return answer; });
}

TEST(Tape, AccumulatesOverBackwards) {
  Var x = leaf({1, 2, 3});
  EXPECT_FALSE(x.grad().defined());
  for (int pass = 1; pass <= 3; ++pass) {
    backward(multiply(x, x), Tensor::from(std::vector<double>{1, 10, 100}, {3}));
    const double n = pass;
    EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{2 * n, 40 * n, 600 * n}));
  }
  x.clear_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Tape, AScalarNeedsNoSeed) {
  const Var x = leaf({3});
  backward(multiply(x, x));
  EXPECT_EQ(x.grad().item(), 6);
  EXPECT_NE(message_of([] {
              backward(add(leaf({1, 2}), leaf({3, 4})));
            }).find("[2] needs a seed"),
            std::string::npos);
}

TEST(Tape, ARootThatIsALeaf) {
  const Var x = leaf({1, 2});
  const Tensor seed = Tensor::from(std::vector<double>{5, 6}, {2});
  backward(x, seed);
  backward(x, seed);
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{10, 12}));
  EXPECT_EQ(seed.to_doubles(), (std::vector<double>{5, 6}));
}

TEST(Tape, LeavesAreReachedByEveryPath) {
  const Var x = leaf({2});
  const Var a = scale(x, 3), b = multiply(a, x), c = add(a, b);  // 3x + 3x^2
  backward(multiply(c, a));                                      // 9x^2 + 9x^3
  EXPECT_EQ(x.grad().item(), 18 * 2 + 27 * 4);
}

// add hands the same tensor to both inputs: neither may change what the other has.
TEST(Tape, GradientsThatShareStorageStaySeparate) {
  const Var a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor seed = Tensor::from(std::vector<double>{1, 1}, {2});
  backward(add(a, b), seed);
  backward(scale(a, 10), seed);  // adds to a's gradient alone
  EXPECT_EQ(a.grad().to_doubles(), (std::vector<double>{11, 11}));
  EXPECT_EQ(b.grad().to_doubles(), (std::vector<double>{1, 1}));
  EXPECT_EQ(seed.to_doubles(), (std::vector<double>{1, 1}));
  backward(scale(b, 100), seed);
  backward(select(reshape(b, {1, 2}), 0), seed);
  EXPECT_EQ(b.grad().to_doubles(), (std::vector<double>{102, 102}));
  EXPECT_EQ(a.grad().to_doubles(), (std::vector<double>{11, 11}));
}

TEST(Tape, AddingToItself) {
  const Var x = leaf({1, 2});
  const Tensor seed = Tensor::from(std::vector<double>{3, 4}, {2});
  backward(add(x, x), seed);
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{6, 8}));
  EXPECT_EQ(seed.to_doubles(), (std::vector<double>{3, 4}));
}

// A gradient of rows meets a gradient that another leaf shares.
TEST(Tape, RowsAddToAPrivateCopy) {
  const Var a = leaf({1, 2, 3}), b = leaf({4, 5, 6});
  const Var sum = add(a, b);
  const Tensor ones = Tensor::full({3}, DType::f64, 1.0);
  backward(add(multiply(sum, Var(ones)), add(a, b)), ones);
  const Var part = rows(a, 1, 1);
  backward(part, Tensor::full({1}, DType::f64, 7.0));
  EXPECT_EQ(a.grad().to_doubles(), (std::vector<double>{2, 9, 2}));
  EXPECT_EQ(b.grad().to_doubles(), (std::vector<double>{2, 2, 2}));
  const Tensor kept = b.grad();
  backward(rows(b, 0, 1), Tensor::full({1}, DType::f64, 1.0));
  EXPECT_EQ(kept.to_doubles(), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(b.grad().to_doubles(), (std::vector<double>{3, 2, 2}));
}

TEST(Tape, NothingIsSavedWithoutNeed) {
  const Var constant(Tensor::full({2}, DType::f64, 1.0));
  const Var x = leaf({1, 2});
  EXPECT_FALSE(add(constant, constant).requires_grad());
  EXPECT_TRUE(add(constant, x).requires_grad());
  {
    const NoGrad outer;
    EXPECT_FALSE(add(x, x).requires_grad());
    { const NoGrad inner; }
    EXPECT_FALSE(add(x, x).requires_grad());
  }
  EXPECT_TRUE(add(x, x).requires_grad());
  EXPECT_EQ(message_of([&] { backward(constant); }),
            "backward() from a value that needs no gradient");
  backward(add(constant, x), Tensor::full({2}, DType::f64, 1.0));
  EXPECT_FALSE(constant.grad().defined());
}

TEST(Tape, AnErrorInsideNoGradRestoresRecording) {
  const Var x = leaf({1});
  EXPECT_NE(message_of([&] { backward(answering(x, {})); }), "no error");
  EXPECT_TRUE(add(x, x).requires_grad());
}

TEST(TapeErrors, NameTheOp) {
  const Var x = leaf({1, 2});
  const Tensor seed = Tensor::full({2}, DType::f64, 1.0);
  const auto with = [&](const std::vector<Gradient>& answer) {
    return message_of([&] { backward(answering(x, answer), seed); });
  };
  EXPECT_EQ(with({Tensor()}),
            "the backward of odd_op gave no gradient for its input 0, which needs one");
  EXPECT_EQ(with({Tensor::zeros({3}, DType::f64)}),
            "the backward of odd_op gave input 0 a gradient of shape [3], not [2]");
  EXPECT_EQ(with({Tensor::zeros({2}, DType::f32)}),
            "the backward of odd_op gave input 0 a gradient of f32, not f64");
  EXPECT_EQ(with({}), "the backward of odd_op gave 0 gradients for 1 inputs");
  EXPECT_EQ(with({seed, seed}), "the backward of odd_op gave 2 gradients for 1 inputs");
  EXPECT_EQ(with({seed}), "no error");
  EXPECT_NE(with({{Tensor::zeros({2}, DType::f64), 1}}), "no error");  // rows 1..3 of 2
  EXPECT_EQ(message_of([&] { backward(add(x, x), Tensor::zeros({3}, DType::f64)); }),
            "the backward of seed gave input 0 a gradient of shape [3], not [2]");
}

TEST(TapeErrors, BackwardTwice) {
  const Var x = leaf({2});
  const Var y = pointwise(Pointwise::gelu, x);
  backward(y);
  EXPECT_EQ(message_of([&] { backward(y); }),
            "backward() ran through the op pointwise already and freed its graph");
  const Var shared = scale(x, 2), a = add(shared, x), b = multiply(shared, x);
  backward(a);
  EXPECT_EQ(message_of([&] { backward(b); }),
            "backward() ran through the op scale already and freed its graph");
}

TEST(TapeErrors, LeavesAndValues) {
  Var x = leaf({1, 2});
  EXPECT_NE(message_of([&] { x.set_value(Tensor::zeros({3}, DType::f64)); }).find("[3]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { x.set_value(Tensor::zeros({2}, DType::f32)); }).find("f32"),
            std::string::npos);
  Var y = add(x, x);
  EXPECT_EQ(message_of([&] { y.set_value(Tensor::zeros({2}, DType::f64)); }),
            "only a leaf's value can be replaced");
  EXPECT_EQ(message_of([] { Var().value(); }), "an undefined Var has no value");
  EXPECT_EQ(message_of([] { Var(Tensor(), true); }), "a Var needs a defined tensor");
  EXPECT_EQ(message_of([] { Var(Tensor::zeros({1}, DType::i32), true); }),
            "an i32 tensor has no gradient");
}

TEST(DetectNonfinite, NamesTheOp) {
  const Var x = leaf({1, 0});
  EXPECT_EQ(message_of([&] { pointwise(Pointwise::log_one_minus_gate, x); }), "no error");
  const DetectNonfinite detect;
  EXPECT_EQ(message_of([&] { scale(x, 2); }), "no error");
  try {
    multiply(pointwise(Pointwise::log_one_minus_gate, x), x);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::numeric);
    EXPECT_STREQ(error.what(),
                 "1 of the 2 values that the op pointwise made are not finite (shape [2])");
  }
  {
    const ModuleScope outer("blocks", 0);
    {
      const ModuleScope inner("head");
      EXPECT_EQ(ModuleScope::path(), " in head");
    }
    EXPECT_EQ(
        message_of([&] { pointwise(Pointwise::log_one_minus_gate, x); }),
        "1 of the 2 values that the op pointwise made in blocks.0 are not finite (shape [2])");
  }
  EXPECT_EQ(ModuleScope::path(), "");
  { const DetectNonfinite inner; }
  EXPECT_NE(message_of([&] { pointwise(Pointwise::log_one_minus_gate, x); }), "no error");
}

Var chain(Var x, int64_t ops) {
  for (int64_t i = 0; i < ops; ++i) x = scale(x, i % 2 == 0 ? 2.0 : 0.5);
  return x;
}

// A chain of 100 ops over 64 KiB: walking it backward needs a few tensors more than the chain
// holds, and gives the chain's own back as it goes.
TEST(TapeMemory, IsFreedDuringBackward) {
  const int64_t bytes = 65536;
  const Var x(Tensor::full({bytes / 4}, DType::f32, 0.5), true);
  const Tensor seed = Tensor::full({bytes / 4}, DType::f32, 1.0);
  const auto held = [] { return static_cast<int64_t>(cpu_allocator().use().held); };
  const int64_t before = held();
  {
    Var y = x;
    for (int i = 0; i < 100; ++i) y = pointwise(Pointwise::gelu, y);
    EXPECT_EQ(held() - before, 100 * bytes);
    cpu_allocator().reset_peak();
    backward(y, seed);
    EXPECT_LE(static_cast<int64_t>(cpu_allocator().use().peak) - before, 103 * bytes);
    EXPECT_EQ(held() - before, 2 * bytes);  // y and the gradient of x
  }
  EXPECT_EQ(held() - before, bytes);
}

TEST(TapeMemory, AnUnusedGraphIsFreed) {
  const Var x(Tensor::full({1024}, DType::f32, 0.5), true);
  const size_t before = cpu_allocator().use().held;
  {
    Var y = x;
    for (int i = 0; i < 20; ++i) y = multiply(pointwise(Pointwise::gelu, y), softmax(y));
    EXPECT_GT(cpu_allocator().use().held, before);
  }
  EXPECT_EQ(cpu_allocator().use().held, before);
}

TEST(TapeMemory, NothingIsSavedUnderNoGrad) {
  const Var x(Tensor::full({16384}, DType::f32, 0.5), true);
  const size_t before = cpu_allocator().use().held;
  const NoGrad no_grad;
  cpu_allocator().reset_peak();
  Var y = x;
  for (int i = 0; i < 100; ++i) y = pointwise(Pointwise::gelu, y);
  EXPECT_LE(cpu_allocator().use().peak - before, size_t{2 * 65536});
}

// Recursion of this depth would overflow the stack.
const int64_t kDeep = kSanitized ? 100'000 : 1'000'000;

TEST(DeepChain, Backward) {
  const Var x = leaf({3});
  const auto start = std::chrono::steady_clock::now();
  backward(chain(x, kDeep));
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(DeepChain, DestructionWithoutBackward) {
  const Var x = leaf({3});
  { const Var y = chain(x, kDeep); }
  // and with side branches: each op holds two inputs, one of them shared
  Var y = x;
  for (int64_t i = 0; i < kDeep / 4; ++i) y = add(scale(y, 0.5), y);
}

TEST(DeepChain, FreedFromTheMiddle) {
  const Var x = leaf({3});
  const Var middle = chain(x, kDeep / 4);
  { const Var end = chain(middle, kDeep / 4); }
  backward(middle);
  EXPECT_EQ(x.grad().item(), 1);
}

}  // namespace
}  // namespace linea

// Casts of many tensors at once, and gradients of bf16 for parameters of f32.
#include "autograd/ops.h"
#include "tensor/ops.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// More than one launch takes, of none, of few and of several blocks' elements.
TEST(CudaCast, ManyAtOnce) {
  const On device(kCuda);
  std::vector<Tensor> given;
  for (uint32_t i = 0; i < 130; ++i) {
    const int64_t n = i == 0 ? 0 : i % 13 == 0 ? 9000 + i : i;
    given.push_back(ops::add(input<float>({n}, i), ops::scale(input<float>({n}, i + 1000), 1e-3)));
  }
  const std::vector<Tensor> narrow = ops::cast_all(given, DType::bf16),
                            wide = ops::cast_all(narrow, DType::f32);
  for (size_t i = 0; i < given.size(); ++i) {
    std::vector<double> expected;
    for (const double x : given[i].to_doubles()) expected.push_back(BFloat16(x));
    EXPECT_EQ(narrow[i].to_doubles(), expected);
    EXPECT_EQ(wide[i].to_doubles(), expected);
    EXPECT_EQ(wide[i].dtype(), DType::f32);
  }
  EXPECT_TRUE(ops::cast_all({}, DType::bf16).empty());
}

// One array is not aligned to 16 bytes, and the other may be copied by groups of eight.
TEST(CudaCast, UnalignedArrays) {
  for (const Shift shift : kShifts)
    expect_close<float, float>(
        [&](auto) {
          const int64_t n = 4096 + 37;
          const Tensor x = input<float>({n + shift.in}, 1), y = input<BFloat16>({n + shift.out}, 2),
                       back = input<float>({n + shift.in}, 3);
          const CastSpan<float, BFloat16> narrow{x.data<float>() + shift.in,
                                                 y.data<BFloat16>() + shift.out, n};
          const CastSpan<BFloat16, float> widen{narrow.to, back.data<float>() + shift.in, n};
          table<float>().narrow(context(), &narrow, 1);
          table<float>().widen(context(), &widen, 1);
          return std::vector<Tensor>{y, back};
        },
        0);
}

// w enters once, by two casts, and by a cast and as it is: gradients of bf16 are added as floats. 1
// + 2^-10 is no bf16.
TEST(CudaCast, GradientsOfParametersAreFloats) {
  const On device(kCuda);
  const Tensor ones = Tensor::full({7}, DType::bf16, 1.0),
               small = Tensor::full({7}, DType::bf16, 0x1p-10);
  const Var w(Tensor::full({7}, DType::f32, 3.0), true),
      v(Tensor::full({7}, DType::f32, 3.0), true);
  const auto go_back = [](const Var& y, const Tensor& by) { backward(y, by); };
  const auto grads = [&] {
    EXPECT_EQ(w.grad().dtype(), DType::f32);
    return w.grad().to_doubles()[6];
  };
  go_back(cast(w, DType::bf16), small);
  EXPECT_EQ(grads(), 0x1p-10);
  go_back(cast(w, DType::bf16), ones);  // to one that is there
  EXPECT_EQ(grads(), 1 + 0x1p-10);
  EXPECT_THROW(backward(w, ones), Error);  // a gradient of bf16 that no cast made
  Var(w).clear_grad();
  const std::vector<Var> both = cast_all({w, v}, DType::bf16);
  const Var again = cast(w, DType::bf16);
  go_back(add(multiply(both[0], Var(ones)), add(multiply(again, Var(small)), both[1])), ones);
  EXPECT_EQ(grads(), 1 + 0x1p-10);
  EXPECT_EQ(v.grad().to_doubles()[0], 1);
  EXPECT_EQ(v.grad().dtype(), DType::f32);
  for (const bool cast_first : {false, true}) {
    Var(w).clear_grad();
    Var rounded, plain;  // the one made last goes back first
    if (cast_first) rounded = cast(w, DType::bf16);
    plain = scale(w, 0x1p-10);
    if (!cast_first) rounded = cast(w, DType::bf16);
    go_back(add(cast(rounded, DType::f32), plain), Tensor::full({7}, DType::f32, 1.0));
    EXPECT_EQ(grads(), 1 + 0x1p-10);
  }
}

// More leaves than one launch takes.
TEST(CudaCast, EachOfManyLeavesGetsItsOwnGradient) {
  const On device(kCuda);
  std::vector<Var> leaves;
  for (int i = 0; i < 70; ++i) leaves.emplace_back(Tensor::full({3}, DType::f32, 1.0), true);
  const std::vector<Var> rounded = cast_all(leaves, DType::bf16);
  Var total;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Var part = scale(rounded[i], static_cast<double>(i));
    total = total.defined() ? add(total, part) : part;
  }
  backward(total, Tensor::full({3}, DType::bf16, 1.0));
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_EQ(leaves[i].grad().to_doubles(), std::vector<double>(3, static_cast<double>(i)));
}

}  // namespace
}  // namespace linea::cuda_tests

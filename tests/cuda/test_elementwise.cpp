#include "tensor/ops.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

constexpr int64_t kCount = 1237;

// With elements left of groups of eight, without, and fewer than a group.
const int64_t kCounts[] = {kCount, 5, 4096, 8};

TEST(CudaElementwise, SumsAndProducts) {
  for (const Shift shift : kShifts)
    for (const int64_t n : kCounts)
      expect_parity([&](auto t) {
        using T = decltype(t);
        const Tensor x = input<T>({n + shift.in}, 1), b = input<T>({n}, 2), into = input<T>({n}, 3);
        const Shape results{n + shift.out};
        const Tensor sum = input<T>(results, 4), product = input<T>(results, 5),
                     scaled = input<T>(results, 6), same = input<T>(results, 7);
        const T* const a = x.data<T>() + shift.in;
        table<T>().add(context(), a, b.data<T>(), sum.data<T>() + shift.out, n);
        table<T>().multiply(context(), a, b.data<T>(), product.data<T>() + shift.out, n);
        table<T>().scale(context(), a, -0.7, scaled.data<T>() + shift.out, n);
        table<T>().fill(context(), same.data<T>() + shift.out, 0.3, n);
        table<T>().add(context(), into.data<T>(), a, into.data<T>(), n);
        return std::vector<Tensor>{sum, product, scaled, same, into};
      });
}

template <typename T>
std::vector<Tensor> value_and_derivative(Pointwise f, const Tensor& x) {
  const Tensor dy = input<T>(x.shape(), 2), y(x.shape(), x.dtype()), dx(x.shape(), x.dtype());
  table<T>().pointwise(context(), f, x.data<T>(), y.template data<T>(), x.numel());
  table<T>().pointwise_backward(context(), f, x.data<T>(), dy.data<T>(), dx.template data<T>(),
                                x.numel());
  return {y, dx};
}

TEST(CudaElementwise, EveryPointwiseFunctionAndItsDerivative) {
  for (const Pointwise f :
       {Pointwise::relu, Pointwise::gelu, Pointwise::sigmoid, Pointwise::log_sigmoid,
        Pointwise::log_one_minus_sigmoid, Pointwise::feature_elu, Pointwise::feature_relu})
    expect_parity([&](auto t) {
      return value_and_derivative<decltype(t)>(f, input<decltype(t)>({kCount}, 1, 4.0));
    });
}

// Gates are in (0, 1); bfloat16 would round many of them to 1.
TEST(CudaElementwise, LogsOfGates) {
  for (const Pointwise f : {Pointwise::log_gate, Pointwise::log_one_minus_gate}) {
    const auto body = [&](auto t) {
      using T = decltype(t);
      const Tensor x = input<T>({kCount}, 1, 4.0);
      table<T>().pointwise(context(), Pointwise::sigmoid, x.template data<T>(),
                           x.template data<T>(), kCount);
      return value_and_derivative<T>(f, x);
    };
    expect_close<float, float>(body, 1e-5);
    expect_close<double, double>(body, 1e-12);
  }
}

TEST(CudaElementwise, GeluRecompute) {
  for (const Shift shift : kShifts)
    for (const int64_t n : kCounts)
      expect_parity([&](auto t) {
        using T = decltype(t);
        const Tensor u = input<T>({n + shift.in}, 1, 2.0), dh = input<T>({n}, 2),
                     h = input<T>({n + shift.out}, 3);
        table<T>().gelu_recompute(context(), u.data<T>() + shift.in, h.data<T>() + shift.out,
                                  dh.data<T>(), n);
        return std::vector<Tensor>{h, dh};
      });
}

TEST(CudaElementwise, DropoutKeepsTheSameElements) {
  for (const int64_t first : {0, 5, 4096})
    expect_parity([&](auto t) {
      using T = decltype(t);
      context().step->seed = 3;
      context().step->step = 11;
      send_step(context());
      const Tensor x = input<T>({kCount}, 1), y(x.shape(), x.dtype());
      table<T>().dropout(context(), x.data<T>(), y.data<T>(), kCount, 0.3f, 2, first);
      return std::vector<Tensor>{y};
    });
}

TEST(CudaElementwise, CountsNonfiniteValues) {
  expect_parity([](auto t) {
    using T = decltype(t);
    std::vector<T> values(3000, T(1.0f));
    values[17] = T(NAN);
    values[2999] = T(INFINITY);
    const Tensor x = Tensor::from(values, {3000});
    const auto count = static_cast<int32_t>(ops::count_nonfinite(x));
    return std::vector<Tensor>{Tensor::from(std::vector<int32_t>{count}, {1})};
  });
}

}  // namespace
}  // namespace linea::cuda_tests

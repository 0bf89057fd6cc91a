#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct Size {
  int64_t rows, out, in;
};
const Size kSizes[] = {{1, 1, 1}, {5, 70, 33}, {64, 48, 16}, {131, 31, 100}, {0, 5, 5}, {3, 0, 2}, {3, 5, 0}};

// Parts that are not there among those that are; rows from the second on, which lie at no round address.
TEST(CudaLinear, ProductsWithWhatFollowsThem) {
  for (const auto [R, out, in] : kSizes)
    for (const bool gelu : {false, true})
      for (const bool with_bias : {false, true})
        for (const bool with_residual : {false, true})
          expect_parity([&, R = R, out = out, in = in](auto t) {
            using T = decltype(t);
            const Tensor x = input<T>({R + 1, in}, 1), w = input<T>({out, in}, 2, 0.3), bias = input<T>({out}, 3);
            const Tensor residual = input<T>({R + 1, out}, 4), y = Tensor::zeros({R + 1, out}, DTypeOf<T>::value);
            table<T>().linear(context(), {R, out, in, gelu}, x.data<T>() + in, w.data<T>(),
                              with_bias ? bias.data<T>() : nullptr, with_residual ? residual.data<T>() + out : nullptr,
                              y.data<T>() + out);
            return std::vector<Tensor>{y};
          });
}

TEST(CudaLinear, TheSameBitsEachTime) {
  const On device(kCuda);
  const int64_t R = 40, out = 24, in = 56;
  const Tensor x = input<float>({R, in}, 1), w = input<float>({out, in}, 2), bias = input<float>({out}, 3);
  const auto product = [&] {
    const Tensor y = unset<float>({R, out});
    table<float>().linear(context(), {R, out, in, true}, x.data<float>(), w.data<float>(), bias.data<float>(), nullptr,
                          y.data<float>());
    return numbers(y);
  };
  EXPECT_EQ(product(), product());
}

}  // namespace
}  // namespace linea::cuda_tests

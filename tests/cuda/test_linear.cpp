#include "cuda/queue.h"
#include "tensor/ops.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct ProductSize {
  int64_t rows, out, in;
};
const ProductSize kProductSizes[] = {{1, 1, 1}, {5, 70, 33}, {64, 48, 16}, {131, 31, 100},
                                     {0, 5, 5}, {3, 0, 2},   {3, 5, 0}};

// Parts that are not there among those that are; rows from the second on, which are at no round
// address.
TEST(CudaLinear, ProductsWithEpilogues) {
  for (const auto [R, out, in] : kProductSizes)
    for (const bool gelu : {false, true})
      for (const bool with_bias : {false, true})
        for (const bool with_residual : {false, true})
          expect_parity([&, R = R, out = out, in = in](auto t) {
            using T = decltype(t);
            const Tensor x = input<T>({R + 1, in}, 1), w = input<T>({out, in}, 2, 0.3),
                         bias = input<T>({out}, 3);
            const Tensor residual = input<T>({R + 1, out}, 4),
                         y = Tensor::zeros({R + 1, out}, dtype_of(T{}));
            table<T>().linear(context(), {R, out, in, gelu}, x.data<T>() + in, {}, w.data<T>(),
                              with_bias ? bias.data<T>() : nullptr,
                              with_residual ? residual.data<T>() + out : nullptr, y.data<T>() + out,
                              {});
            return std::vector<Tensor>{y};
          });
}

// Rows that are normalized first; from `first` on, which is at no round address.
struct NormedSize {
  int64_t rows, out, in, first = 0;
};
const NormedSize kNormedSizes[] = {{1, 1, 8},   {3, 9, 16},     {70, 130, 136}, {5, 3, 1032},
                                   {9, 10, 12}, {9, 10, 16, 1}, {0, 4, 8}};

TEST(CudaLinear, NormsComeFirst) {
  for (const auto [R, out, in, first] : kNormedSizes)
    for (const bool gelu : {false, true})
      for (const bool with_bias : {false, true})
        expect_parity([&, R = R, out = out, in = in, first = first](auto t) {
          using T = decltype(t);
          const Tensor x = input<T>({R * in + first}, 1), w = input<T>({out, in}, 2, 0.3),
                       bias = input<T>({out}, 3);
          const Tensor weight = input<T>({in}, 4), shift = input<T>({in}, 5),
                       y = unset<T>({R, out});
          const Tensor residual = input<T>({R, out}, 6);
          const T* const none = nullptr;
          table<T>().linear(context(), {R, out, in, gelu}, x.data<T>() + first,
                            {weight.data<T>(), with_bias ? shift.data<T>() : none}, w.data<T>(),
                            with_bias ? bias.data<T>() : none,
                            gelu && !with_bias ? residual.data<T>() : none, y.data<T>(), {});
          return std::vector<Tensor>{y};
        });
}

// The input of GELU is stored, by the product itself where its rows allow it.
TEST(CudaLinear, InputsOfGelu) {
  for (const auto [R, out, in, first] : {NormedSize{64, 48, 16}, NormedSize{5, 70, 33},
                                         NormedSize{5, 72, 33, 1}, NormedSize{3, 8, 0}})
    for (const bool with_bias : {false, true})
      for (const bool with_norm : {false, true})
        expect_parity([&, R = R, out = out, in = in, first = first](auto t) {
          using T = decltype(t);
          const Tensor x = input<T>({R, in}, 1), w = input<T>({out, in}, 2, 0.3),
                       bias = input<T>({out}, 3), weight = input<T>({in}, 4);
          const Tensor u = Tensor::zeros({R * out + first}, dtype_of(T{})), y = unset<T>({R, out});
          const T* const none = nullptr;
          table<T>().linear(context(), {R, out, in, true}, x.data<T>(),
                            {with_norm ? weight.data<T>() : none, none}, w.data<T>(),
                            with_bias ? bias.data<T>() : none, none, y.data<T>(),
                            {.same = u.data<T>() + first});
          return std::vector<Tensor>{u, y};
        });
}

TEST(CudaLinear, TheSameBitsEachTime) {
  const On device(kCuda);
  const int64_t R = 40, out = 24, in = 56;
  const Tensor x = input<float>({R, in}, 1), w = input<float>({out, in}, 2),
               bias = input<float>({out}, 3);
  const auto product = [&] {
    const Tensor y = unset<float>({R, out});
    table<float>().linear(context(), {R, out, in, true}, x.data<float>(), {}, w.data<float>(),
                          bias.data<float>(), nullptr, y.data<float>(), {});
    return numbers(y);
  };
  EXPECT_EQ(product(), product());
}

}  // namespace
}  // namespace linea::cuda_tests

#include "cuda/fused_norm_linear.h"
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

// Rows of every kind of end: of a block's, of a panel's terms, of its columns; and those that are
// normalized first, since there are many, they are long, or they are at no round address.
struct FusedNormSize {
  int64_t rows, out, in, first = 0;
};
const FusedNormSize kFusedNormSizes[] = {{1, 1, 8},     {3, 9, 16},   {64, 64, 64}, {70, 130, 136},
                                         {5, 48, 1024}, {5, 3, 1032}, {9, 10, 12},  {9, 10, 16, 1},
                                         {2049, 2, 8},  {0, 4, 8}};

TEST(CudaLinear, FusedNorm) {
  for (const auto [R, out, in, first] : kFusedNormSizes)
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

// What is multiplied is the norm's result as it would have been stored.
TEST(CudaLinear, FusedNormMatchesSeparateNorm) {
  const On device(kCuda);
  using T = BFloat16;
  const int64_t R = 37, out = 70, in = 72;
  const Tensor x = input<T>({R, in}, 1, 2.0), w = input<T>({out, in}, 2, 0.3),
               weight = input<T>({in}, 4);
  const Tensor y = unset<T>({R, out});
  ASSERT_TRUE(cuda::fused_norm_linear(context(), {R, out, in}, x.data<T>(), {weight.data<T>()},
                                      w.data<T>(), nullptr, y.data<T>()));
  const Tensor expected = ops::matmul(ops::layer_norm(x, weight, Tensor()).y, w, false, true);
  EXPECT_LE(distance(numbers(y), numbers(expected)),
            0.004);  // a sum in another order may be rounded the other way
  size_t other = 0;
  for (size_t i = 0; i < numbers(y).size(); ++i)
    other += numbers(y)[i] != numbers(expected)[i] ? 1 : 0;
  EXPECT_LE(other, static_cast<size_t>(R * out / 50));
}

TEST(CudaLinear, SizesThatAreNotFused) {
  const On device(kCuda);
  using T = BFloat16;
  const auto fused = [](int64_t R, int64_t in) {
    const Tensor x = input<T>({R, in}, 1), w = input<T>({8, in}, 2), weight = input<T>({in}, 3),
                 y = unset<T>({R, 8});
    return cuda::fused_norm_linear(context(), {R, 8, in}, x.data<T>(), {weight.data<T>()},
                                   w.data<T>(), nullptr, y.data<T>());
  };
  EXPECT_TRUE(fused(2, 8));
  EXPECT_TRUE(fused(2, 1024));
  EXPECT_FALSE(fused(2, 12));    // not a multiple of 8
  EXPECT_FALSE(fused(2, 1032));  // too long
  EXPECT_FALSE(fused(2049, 8));  // too many rows
  size_t& shared_bytes = static_cast<cuda::Queue*>(context().queue)->shared_bytes;
  const size_t before = shared_bytes;
  shared_bytes = size_t{99} << 10;  // of a smaller GPU
  EXPECT_TRUE(fused(2, 8));
  EXPECT_FALSE(fused(2, 1024));
  shared_bytes = before;
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

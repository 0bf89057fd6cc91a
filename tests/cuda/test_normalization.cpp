#include "tensor/backend.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct NormSize {
  int64_t rows, columns;
};
// Rows of a few lanes, of a warp and of a block, by eight elements and by one; one row, and none.
const NormSize kNormSizes[] = {{1, 1},   {37, 5},   {70, 264}, {70, 64},  {300, 33}, {9, 24},
                               {5, 512}, {9, 1025}, {1, 3000}, {3, 2056}, {0, 4},    {3, 0}};

TEST(CudaNormalization, LayerNormAndItsBackward) {
  for (const Shift shift : kShifts)
    for (const auto [R, C] : kNormSizes)
      for (const bool with_bias : {false, true})
        expect_parity(
            [&, R = R, C = C](auto t) {
              using T = decltype(t);
              using A = Accumulator<T>;
              const int64_t n = R * C;
              const Tensor x = input<T>({n + shift.in}, 1, 2.0), weight = input<T>({C}, 2),
                           bias = input<T>({C + shift.in}, 3), dy = input<T>({n + shift.in}, 4);
              const Tensor y = input<T>({n + shift.out}, 5), dx = input<T>({n + shift.out}, 6);
              const Tensor dweight = unset<T>({C}), dbias = Tensor::zeros({C}, dtype_of(T{}));
              const Tensor mean = unset<A>({R}), scale = unset<A>({R});
              const T* const from = x.data<T>() + shift.in;
              table<T>().layer_norm(context(), from, weight.data<T>(),
                                    with_bias ? bias.data<T>() + shift.in : nullptr,
                                    y.data<T>() + shift.out, mean.data<A>(), scale.data<A>(), R, C);
              table<T>().layer_norm_backward(context(), from, weight.data<T>(), mean.data<A>(),
                                             scale.data<A>(), dy.data<T>() + shift.in,
                                             dx.data<T>() + shift.out, dweight.data<T>(),
                                             with_bias ? dbias.data<T>() : nullptr, R, C);
              return std::vector<Tensor>{y, mean, scale, dx, dweight, dbias};
            },
            {1e-4, 1e-12, 1e-2});  // a mean of both signs is small next to what was summed
}

// Far from 0 the variance is not what is left of two large squares.
TEST(CudaNormalization, LayerNormOfRowsFarFromZero) {
  const auto body = [](auto t) {
    using T = decltype(t);
    const int64_t R = 3, C = 100;
    std::vector<T> values;
    for (int64_t i = 0; i < R * C; ++i) values.push_back(T(4096.0f + static_cast<float>(i % 7)));
    const Tensor x = Tensor::from(values, {R, C}), weight = input<T>({C}, 2), y = unset<T>({R, C});
    const Tensor mean = unset<T>({R}), scale = unset<T>({R});
    table<T>().layer_norm(context(), x.template data<T>(), weight.template data<T>(), nullptr,
                          y.template data<T>(), mean.template data<T>(), scale.template data<T>(),
                          R, C);
    return std::vector<Tensor>{y, scale};
  };
  expect_close<float, float>(body, 1e-4);  // the mean's own rounding
  expect_close<double, double>(body, 1e-11);
}

TEST(CudaNormalization, GradientsOfWeightsAreTheSameBitsEachTime) {
  const On device(kCuda);
  const int64_t R = 5000, C = 7;
  const Tensor x = input<float>({R, C}, 1), weight = input<float>({C}, 2),
               dy = input<float>({R, C}, 3);
  const Tensor mean = input<float>({R}, 4), scale = input<float>({R}, 5), dx = unset<float>({R, C});
  const auto grads = [&] {
    const Tensor dweight = unset<float>({C}), dbias = unset<float>({C});
    table<float>().layer_norm_backward(
        context(), x.data<float>(), weight.data<float>(), mean.data<float>(), scale.data<float>(),
        dy.data<float>(), dx.data<float>(), dweight.data<float>(), dbias.data<float>(), R, C);
    std::vector<double> both = numbers(dweight), of_bias = numbers(dbias);
    both.insert(both.end(), of_bias.begin(), of_bias.end());
    return both;
  };
  EXPECT_EQ(grads(), grads());
}

// Row 0 sees nothing, row 1 sees one element, row 2 holds NaN, row 3 large numbers.
template <typename T>
Tensor odd_rows(int64_t R, int64_t C, int64_t shift) {
  const Tensor x = input<T>({R * C + shift}, 1, 3.0);
  std::vector<T> values = x.to_vector<T>();
  T* const rows = values.data() + shift;
  for (int64_t c = 0; c < C && R > 3; ++c) {
    rows[c] = T(-INFINITY);
    if (c != C / 2) rows[C + c] = T(-INFINITY);
    if (c == C / 3) rows[2 * C + c] = T(NAN);
    rows[3 * C + c] = T(static_cast<float>(rows[3 * C + c]) * 4096.0f);
  }
  return Tensor::from(values, x.shape());
}

TEST(CudaNormalization, SoftmaxAndItsBackward) {
  for (const Shift shift : kShifts)
    for (const auto [R, C] : kNormSizes)
      expect_parity(
          [shift, R = R, C = C](auto t) {
            using T = decltype(t);
            const Tensor x = odd_rows<T>(R, C, shift.in), dy = input<T>({R, C}, 2),
                         dx = input<T>({R * C + shift.out}, 3);
            T* const rows = x.data<T>() + shift.in;
            table<T>().softmax(context(), rows, rows, R, C);
            table<T>().softmax_backward(context(), rows, dy.data<T>(), dx.data<T>() + shift.out, R,
                                        C);
            return std::vector<Tensor>{x, dx};
          },
          {1e-5, 1e-12, 2e-2});  // the backward's y has been rounded too
}

// A row of zeros has the sum 0, and no gradient.
TEST(CudaNormalization, NormalizeAndItsBackward) {
  for (const auto [R, C] : kNormSizes)
    expect_parity(
        [R = R, C = C](auto t) {
          using T = decltype(t);
          using A = Accumulator<T>;
          const Tensor x = input<T>({R, C}, 1), dy = input<T>({R, C}, 2), dx = unset<T>({R, C});
          table<T>().pointwise(context(), Pointwise::relu, x.data<T>(), x.data<T>(), R * C);
          if (R > 4)
            device_memory(context().device).clear(context(), x.data<T>() + 4 * C, C * sizeof(T));
          const Tensor y = unset<T>({R, C}), sums = unset<A>({R});
          table<T>().normalize(context(), x.data<T>(), y.data<T>(), sums.data<A>(), R, C);
          table<T>().normalize_backward(context(), y.data<T>(), sums.data<A>(), dy.data<T>(),
                                        dx.data<T>(), R, C);
          return std::vector<Tensor>{y, sums, dx};
        },
        {1e-5, 1e-12, 2e-2});
}

}  // namespace
}  // namespace linea::cuda_tests

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaFeatures, SquaresAndTheirBackward) {
  for (const int64_t R : {0, 1, 37})
    for (const int64_t D : {1, 5, 40})
      expect_real_parity([&](auto t) {
        using T = decltype(t);
        const Tensor x = input<T>({R, D}, 1), dy = input<T>({R, D * D}, 2),
                     y = unset<T>({R, D * D});
        const Tensor dx = unset<T>({R, D});
        table<T>().quadratic_features(context(), x.data<T>(), y.data<T>(), R, D);
        table<T>().quadratic_features_backward(context(), x.data<T>(), dy.data<T>(), dx.data<T>(),
                                               R, D);
        return std::vector<Tensor>{y, dx};
      });
}

// nu reaches around the whole row; some x are 0, where neither half has a gradient.
TEST(CudaFeatures, DpfpAndItsBackward) {
  for (const int64_t R : {0, 1, 37})
    for (const int64_t D : {1, 5, 40})
      for (const int64_t nu : {1, 3, 11})
        expect_real_parity([&](auto t) {
          using T = decltype(t);
          const Tensor dy = input<T>({R, 2 * D * nu}, 2), y = unset<T>({R, 2 * D * nu});
          std::vector<T> values = input<T>({R, D}, 1).template to_vector<T>();
          for (size_t i = 0; i < values.size(); i += 7) values[i] = T(0.0f);
          const Tensor x = Tensor::from(values, {R, D}), dx = unset<T>({R, D});
          table<T>().dpfp_features(context(), x.data<T>(), y.data<T>(), R, D, nu);
          table<T>().dpfp_features_backward(context(), x.data<T>(), dy.data<T>(), dx.data<T>(), R,
                                            D, nu);
          return std::vector<Tensor>{y, dx};
        });
}

}  // namespace
}  // namespace linea::cuda_tests

#include <tuple>

#include "tensor/ops.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct RandomFeatureSize {
  int64_t rows, key, features;
};
const RandomFeatureSize kRandomFeatureSizes[] = {{1, 1, 1},     {37, 5, 70},  {300, 64, 33},
                                                 {3, 40, 1100}, {2, 1100, 8}, {0, 4, 4}};

// Pairs of three heads, from the third on.
TEST(CudaRandomFeatures, Logs) {
  for (const auto [R, D, F] : kRandomFeatureSizes)
    expect_real_parity([R = R, D = D, F = F](auto t) {
      using T = decltype(t);
      const HeadShape shape{4, R, F, D, 2, 3};
      const Tensor x = input<T>({4, R, D}, 1), omega = input<T>({3, F, D}, 2),
                   du = input<T>({4, R, F}, 3);
      const Tensor u = unset<T>({4, R, F}), dx = unset<T>({4, R, D});
      table<T>().random_logs(context(), shape, x.data<T>(), omega.data<T>(), 0.7, u.data<T>());
      table<T>().random_logs_backward(context(), shape, x.data<T>(), du.data<T>(), omega.data<T>(),
                                      0.7, dx.data<T>());
      return std::vector<Tensor>{u, dx};
    });
}

// Products of whole sequences, of parts of them, and of one position, where rows of a head are
// multiplied together.
TEST(CudaRandomFeatures, ProductsWithTheMatrixOfAHead) {
  for (const auto& [pairs, rows, first] :
       {std::tuple<int64_t, int64_t, int64_t>{12, 1, 0}, {6, 5, 0}, {7, 2, 1}, {12, 1, 2}})
    for (const bool transpose : {false, true})
      expect_parity([&, pairs = pairs, rows = rows, first = first](auto t) {
        using T = decltype(t);
        const Tensor x = input<T>({pairs, rows, 9}, 1),
                     w = input<T>(transpose ? Shape{3, 20, 9} : Shape{3, 9, 20}, 2);
        return std::vector<Tensor>{ops::head_matmul(x, w, first, transpose, 0.5)};
      });
}

TEST(CudaRandomFeatures, SinesAndCosines) {
  for (const auto [R, n, F] : kRandomFeatureSizes)
    expect_real_parity([R = R, n = n](auto t) {
      using T = decltype(t);
      const Tensor u = input<T>({R, n}, 1, 3.0), y = unset<T>({R, 2 * n}),
                   dy = input<T>({R, 2 * n}, 2);
      const Tensor du = unset<T>({R, n});
      table<T>().sine_cosine(context(), u.data<T>(), y.data<T>(), R, n);
      table<T>().sine_cosine_backward(context(), y.data<T>(), dy.data<T>(), du.data<T>(), R, n);
      return std::vector<Tensor>{y, du};
    });
}

}  // namespace
}  // namespace linea::cuda_tests

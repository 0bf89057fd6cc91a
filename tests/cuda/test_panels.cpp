#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

template <typename T>
Tensor fresh(const Shape& shape) {
  return Tensor(shape, DTypeOf<T>::value);
}

struct Size {
  int64_t rows, out, in;
};

// Panels that are full, that are not, and none; with and without a bias.
TEST(CudaPanels, ProductsWithPackedWeights) {
  for (const auto [R, out, in] : {Size{1, 1, 1}, Size{1, 64, 40}, Size{5, 70, 33}, Size{131, 31, 100}, Size{0, 5, 5},
                                  Size{3, 5, 0}})
    for (const bool with_bias : {false, true})
      expect_parity([&, R = R, out = out, in = in](auto t) {
        using T = decltype(t);
        const int64_t count = (out + kPanel - 1) / kPanel;
        const Tensor x = input<T>({R, in}, 1), w = input<T>({out, in}, 2), bias = input<T>({out}, 3);
        const Tensor panels = fresh<T>({count, in, kPanel}), y = fresh<T>({R, out});
        table<T>().pack_panels(context(), w.data<T>(), panels.data<T>(), out, in);
        table<T>().panel_gemm(context(), x.data<T>(), panels.data<T>(), with_bias ? bias.data<T>() : nullptr,
                              y.data<T>(), R, out, in);
        return std::vector<Tensor>{panels, y};
      });
}

}  // namespace
}  // namespace linea::cuda_tests

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct PanelSize {
  int64_t rows, out, in;
};

// Panels that are full, that are not, and none; with and without a bias.
TEST(CudaPanels, ProductsWithPackedWeights) {
  for (const auto [R, out, in] :
       {PanelSize{1, 1, 1}, PanelSize{1, 64, 40}, PanelSize{5, 70, 33}, PanelSize{131, 31, 100},
        PanelSize{0, 5, 5}, PanelSize{3, 5, 0}, PanelSize{1, 40, 603}, PanelSize{7, 40, 600}})
    for (const bool with_bias : {false, true})
      expect_parity([&, R = R, out = out, in = in](auto t) {
        using T = decltype(t);
        const int64_t count = (out + kPanel - 1) / kPanel;
        const Tensor x = input<T>({R, in}, 1), w = input<T>({out, in}, 2),
                     bias = input<T>({out}, 3);
        const Tensor panels = unset<T>({count, in, kPanel}), y = unset<T>({R, out});
        table<T>().pack_panels(context(), w.data<T>(), panels.data<T>(), out, in);
        table<T>().panel_gemm(context(), x.data<T>(), panels.data<T>(),
                              with_bias ? bias.data<T>() : nullptr, y.data<T>(), R, out, in);
        const Tensor halves = unset<BFloat16>({count, in, kPanel}),
                     from_halves = unset<T>({R, out});
        table<T>().pack_bf16_panels(context(), w.data<T>(), halves.data<BFloat16>(), out, in);
        table<T>().bf16_panel_gemm(context(), x.data<T>(), halves.data<BFloat16>(),
                                   with_bias ? bias.data<T>() : nullptr, from_halves.data<T>(), R,
                                   out, in);
        return std::vector<Tensor>{panels, y, halves, from_halves};
      });
}

TEST(CudaPanels, MoreRowsThanOneGridHolds) {
  expect_close<float, float>(
      [](auto) {
        const int64_t R = (1 << 12) + 5, in = 3;
        std::vector<float> values;
        for (int64_t i = 0; i < R * in; ++i) values.push_back(static_cast<float>(i % 251));
        const Tensor x = Tensor::from(values, {R, in}), w = Tensor::full({1, in}, DType::f32, 2.0);
        const Tensor panels = unset<float>({1, in, kPanel}), y = unset<float>({R, 1});
        table<float>().pack_panels(context(), w.data<float>(), panels.data<float>(), 1, in);
        table<float>().panel_gemm(context(), x.data<float>(), panels.data<float>(), nullptr,
                                  y.data<float>(), R, 1, in);
        return std::vector<Tensor>{y};
      },
      0);
}

}  // namespace
}  // namespace linea::cuda_tests

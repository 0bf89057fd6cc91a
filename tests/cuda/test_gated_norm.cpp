// The norm and the gate of attention outputs, with its gradients, on both devices.
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaGatedNorm, AgreesWithTheCpu) {
  struct Size {
    int64_t R, H, D;
  };
  for (const Size& size : {Size{150, 3, 24}, Size{2, 3, 5}, Size{7, 2, 1100}, Size{0, 2, 4}})
    for (const bool normed : {true, false})
      for (const int64_t unaligned : {0, 1})
        expect_parity(
            [&](auto t) {
              using T = decltype(t);
              const int64_t R = size.R, H = size.H, C = H * size.D;
              const Tensor y = input<T>({R, C}, 1), weight = input<T>({C}, 2),
                           g = input<T>({R, C}, 3), dz = input<T>({R * C + unaligned}, 4),
                           z = unset<T>({R, C}), dy = unset<T>({R, C}), dg = unset<T>({R, C}),
                           dweight = Tensor::zeros({C}, dtype_of(T{}));
              const T* w = normed ? weight.data<T>() : nullptr;
              table<T>().gated_norm(context(), y.data<T>(), w, g.data<T>(), z.data<T>(), R, H, C);
              table<T>().gated_norm_backward(
                  context(), y.data<T>(), w, g.data<T>(), dz.data<T>() + unaligned, dy.data<T>(),
                  normed ? dweight.data<T>() : nullptr, dg.data<T>(), R, H, C);
              return std::vector<Tensor>{z, dy, dweight, dg};
            },
            {1e-4, 1e-12, 1e-2});
}

}  // namespace
}  // namespace linea::cuda_tests

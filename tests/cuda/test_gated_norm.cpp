// The norm and the gate of attention outputs, with its gradients, on both devices.
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaGatedNorm, AgreesWithTheCpu) {
  struct Size {
    int64_t R, H, D;
  };
  // Heads of four lanes and more, of a warp and of a block, by eight elements and by one. Rows of 40
  // elements in heads of 20 are rows of whole groups of eight, but their heads are not.
  const Size sizes[] = {{2, 3, 5},   {150, 3, 24}, {33, 4, 32}, {2, 2, 20},   {9, 5, 128},
                        {21, 12, 8}, {5, 2, 256},  {0, 2, 4},   {7, 2, 1100}, {3, 2, 2048}};
  for (const Shift shift : kShifts)
    for (const Size& size : sizes)
      for (const bool normed : {true, false})
        expect_parity(
            [&](auto t) {
              using T = decltype(t);
              const int64_t R = size.R, H = size.H, C = H * size.D, n = R * C;
              const Tensor y = input<T>({n + shift.in}, 1), weight = input<T>({C + shift.in}, 2),
                           g = input<T>({n + shift.in}, 3), dz = input<T>({n + shift.in}, 4),
                           z = input<T>({n + shift.out}, 5), dy = input<T>({n + shift.out}, 6),
                           dg = input<T>({n + shift.out}, 7),
                           dweight = Tensor::zeros({C}, dtype_of(T{}));
              const T *from = y.data<T>() + shift.in, *gate = g.data<T>() + shift.in;
              const T* const w = normed ? weight.data<T>() + shift.in : nullptr;
              table<T>().gated_norm(context(), from, w, gate, z.data<T>() + shift.out, R, H, C);
              table<T>().gated_norm_backward(
                  context(), from, w, gate, dz.data<T>() + shift.in, dy.data<T>() + shift.out,
                  normed ? dweight.data<T>() : nullptr, dg.data<T>() + shift.out, R, H, C);
              return std::vector<Tensor>{z, dy, dweight, dg};
            },
            {1e-4, 1e-12, 1e-2});
}

}  // namespace
}  // namespace linea::cuda_tests

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaMuon, UpdatesMatricesAndMomentum) {
  const std::vector<Shape> shapes = {{8, 20}, {33, 5}, {6, 6}};
  for (const double clip_scale : {1.0, 0.25, std::nan("")})
    expect_parity(
        [&](auto t) {
          using T = decltype(t);
          using A = Accumulator<T>;
          StepParams& step = *context().step;
          step = {};
          step.learning_rate = 0.01;
          step.clip_scale = clip_scale;
          send_step(context());
          std::vector<Tensor> tensors;
          std::vector<MuonMatrix<T>> matrices;
          for (const Shape& shape : shapes) {
            const auto lane = static_cast<uint32_t>(tensors.size());
            const Tensor gradient = input<T>(shape, lane + 100);
            tensors.push_back(input<T>(shape, lane));
            tensors.push_back(input<A>(shape, lane + 1));
            matrices.push_back({gradient.template data<T>(), tensors[lane].template data<T>(),
                                tensors[lane + 1].template data<A>(), shape[0], shape[1]});
            table<T>().muon(context(), {0.9, 20, 0.1}, &matrices.back(), 1);
          }
          return tensors;
        },
        {1e-4, 1e-10, 2e-2});
  *context().step = {};
}

}  // namespace
}  // namespace linea::cuda_tests

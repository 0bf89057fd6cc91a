#include "tensor/backend.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaMuon, UpdatesMatricesAndMomentum) {
  // Equal matrices share their launches; 4,900 elements are two blocks.
  const std::vector<Shape> shapes = {{8, 20},  {33, 5}, {6, 6},  {8, 20},
                                     {70, 70}, {20, 8}, {70, 70}};
  for (const double clip_scale : {1.0, 0.25, std::nan("")})
    expect_real_parity(
        [&](auto t) {
          using T = decltype(t);
          using A = Accumulator<T>;
          StepParams& step = *context().step;
          step = {};
          step.learning_rate = 0.01;
          step.clip_scale = clip_scale;
          send_step(context());
          std::vector<Tensor> tensors, gradients;
          std::vector<MuonMatrix<T>> matrices;
          for (const Shape& shape : shapes) {
            const auto lane = static_cast<uint32_t>(tensors.size());
            gradients.push_back(input<T>(shape, lane + 100));
            tensors.push_back(input<T>(shape, lane));
            tensors.push_back(input<A>(shape, lane + 1));
            matrices.push_back({gradients.back().template data<T>(),
                                tensors[lane].template data<T>(),
                                tensors[lane + 1].template data<A>(), shape[0], shape[1]});
          }
          table<T>().muon(context(), {0.9, 20, 0.1}, matrices.data(), matrices.size());
          return tensors;
        },
        {1e-4, 1e-10, 2e-2});
  *context().step = {};
}

TEST(CudaMuon, TakesFewLaunchesForManyMatrices) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  std::vector<Tensor> tensors;
  std::vector<MuonMatrix<float>> matrices;
  for (int layer = 0; layer < 8; ++layer)
    for (const Shape& shape : {Shape{4, 4}, {4, 4}, {4, 4}, {4, 4}, {16, 4}, {4, 16}}) {
      for (int i = 0; i < 3; ++i) tensors.push_back(Tensor::zeros(shape, DType::f32));
      float* const of[] = {tensors.end()[-3].data<float>(), tensors.end()[-2].data<float>(),
                           tensors.end()[-1].data<float>()};
      matrices.push_back({of[0], of[1], of[2], shape[0], shape[1]});
    }
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  for (int round = 0; round < 2; ++round)
    recorder->run(0, [&] {
      table<float>().muon(context(), {0.9, 20, 0.1}, matrices.data(), matrices.size());
    });
  EXPECT_EQ(recorder->launches(0), 3 * 23u);
}

}  // namespace
}  // namespace linea::cuda_tests

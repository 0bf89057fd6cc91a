// Work that is recorded once and done again: the same bits as done plainly, on memory that no one
// else gets.
#include "tensor/backend.h"
#include "tensor/ops.h"
#include "tests/cuda/parity.h"
#include "tests/expect_error.h"

namespace linea::cuda_tests {
namespace {

class CudaRecorder : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  }
  On device_{kCuda};
};

TEST_F(CudaRecorder, ReplaysWithNewInputs) {
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  ASSERT_NE(recorder, nullptr);
  const Tensor x({6, 5}, DType::f32), w = input<float>({5, 4}, 2),
                                      total = Tensor::zeros({6, 4}, DType::f32);
  int calls = 0;
  const auto work = [&] {
    ++calls;
    ops::accumulate(ops::pointwise(Pointwise::gelu, ops::matmul(x, w)), total);
  };
  Tensor expected = Tensor::zeros({6, 4}, DType::f32);
  for (uint32_t round = 0; round < 5; ++round) {
    const Tensor given = input<float>({6, 5}, 10 + round);
    ops::copy_into(given, x);
    EXPECT_TRUE(recorder->run(0, work));
    expected = ops::add(expected, ops::pointwise(Pointwise::gelu, ops::matmul(given, w)));
    // Others may take what was released: not the memory of what was recorded.
    const Tensor other = Tensor::full({6, 4}, DType::f32, 7);
    EXPECT_EQ(total.to_vector<float>(), expected.to_vector<float>()) << "round " << round;
    EXPECT_EQ(other.to_vector<float>(), std::vector<float>(24, 7.0f));
  }
  EXPECT_EQ(calls, 2);  // plainly, and to record it
}

TEST_F(CudaRecorder, AllocatesNothingAfterCapture) {
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  const Tensor x = input<float>({300}, 1), y({300}, DType::f32);
  const auto work = [&] { ops::copy_into(ops::scale(ops::scale(x, 2), 0.5), y); };
  recorder->run(0, work);
  recorder->run(0, work);
  const MemoryUse before = device_allocator().use();
  for (int round = 0; round < 3; ++round) recorder->run(0, work);
  EXPECT_EQ(device_allocator().use().held, before.held);
  EXPECT_EQ(device_allocator().use().cached, before.cached);
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
}

// Numbers that the host writes or waits for cannot be captured: it reports so and continues
// eagerly.
TEST_F(CudaRecorder, FallsBackToEagerOnHostAccess) {
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  const Tensor x = input<float>({8}, 1), y({8}, DType::f32);
  const auto work = [&] {
    ops::copy_into(ops::add(x, Tensor::from(std::vector<float>(8, 1.0f), {8})), y);
  };
  const std::vector<float> expected = [&] {
    work();
    return y.to_vector<float>();
  }();
  EXPECT_TRUE(recorder->run(0, work));
  EXPECT_EQ(recorder->refusal(), "");
  EXPECT_FALSE(recorder->run(0, work));
  EXPECT_NE(recorder->refusal().find("host"), std::string::npos) << recorder->refusal();
  for (int round = 0; round < 3; ++round) {
    ops::copy_into(Tensor::zeros({8}, DType::f32), y);
    EXPECT_TRUE(recorder->run(0, work));
    EXPECT_EQ(y.to_vector<float>(), expected);
  }
}

// Memory that is taken while work is recorded would be the graph's.
TEST_F(CudaRecorder, FallsBackToEagerOnAllocation) {
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  const Tensor y({4}, DType::f32);
  int64_t size = 1 << 20;
  const auto work = [&] {
    const Tensor more = Tensor::zeros({size}, DType::f32);
    ops::copy_into(more.rows(0, 4), y);
    size *= 2;
  };
  EXPECT_TRUE(recorder->run(0, work));
  EXPECT_FALSE(recorder->run(0, work));
  EXPECT_NE(recorder->refusal().find("memory cannot be allocated during graph capture"),
            std::string::npos)
      << recorder->refusal();
  ops::copy_into(Tensor::full({4}, DType::f32, 7), y);
  EXPECT_TRUE(recorder->run(0, work));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4));
}

TEST(GraphRecorder, TheCpuHasNone) { EXPECT_EQ(make_graph_recorder(), nullptr); }

}  // namespace
}  // namespace linea::cuda_tests

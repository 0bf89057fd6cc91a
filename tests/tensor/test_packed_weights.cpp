// Weights that are packed once for several products: the bits of products that each pack them.
#include "tensor/packed_weights.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>

#include "tensor/backend.h"
#include "tensor/ops.h"
#include "tensor/schedule.h"
#include "tests/tensor/op_values.h"

namespace linea {
namespace {

// For products that round, too.
class PackedWeightsTest : public testing::TestWithParam<FloatProducts> {
 protected:
  void SetUp() override {
    if (std::string(cpu_isa()) != "AVX2" && std::string(cpu_isa()) != "AVX-512")
      GTEST_SKIP() << "the base build computes products by BLAS";
    context().products = GetParam();
  }
  void TearDown() override {
    context().products = FloatProducts::exact;
    set_threads(threads_);
  }
  const int threads_ = context().threads;
};

Tensor f32(const Shape& shape, uint32_t stream_id) {
  return op_tests::random(shape, stream_id, DType::f32);
}

std::vector<float> product(const Tensor& x, const Tensor& w, bool transpose_w) {
  return ops::matmul(x, w, false, transpose_w).to_vector<float>();
}

// 2100 terms are more than a block of either kernel.
TEST_P(PackedWeightsTest, GiveTheSameBits) {
  const Tensor x = f32({120, 2100}, 1), w = f32({70, 2100}, 2), dy = f32({120, 70}, 3),
               v = f32({70, 2100}, 4);
  for (const int threads : {1, 3}) {
    set_threads(threads);
    const std::vector<float> of_w = product(x, w, true), of_v = product(x, v, true),
                             dx = product(dy, w, false);
    const PackedWeights packed({w, v});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(product(x, w, true), of_w);
      EXPECT_EQ(product(x, v, true), of_v);
      EXPECT_EQ(product(dy, w, false), dx);
    }
    const Tensor rows = x.rows(0, 50);
    EXPECT_EQ(product(rows, w, true), std::vector<float>(of_w.begin(), of_w.begin() + 50 * 70));
  }
}

// A changed weight shows what is shared, and how long.
TEST_P(PackedWeightsTest, ArePackedOnce) {
  const Tensor x = f32({120, 600}, 1), w = f32({70, 600}, 2), dy = f32({120, 70}, 3);
  const std::vector<float> before = product(x, w, true), dx = product(dy, w, false);
  {
    const PackedWeights packed({w});
    EXPECT_EQ(product(x, w, true), before);
    w.data<float>()[0] += 1;
    EXPECT_EQ(product(x, w, true), before);
    EXPECT_NE(product(dy, w, false), dx);  // another form
  }
  EXPECT_NE(product(x, w, true), before);
}

// Thread 0 packs a weight that then changes: the others, which have packed nothing, see the change.
TEST_P(PackedWeightsTest, EachThreadHasAFormOfItsOwn) {
  const Tensor x = f32({24, 600}, 1), w = f32({70, 600}, 2), changed = f32({70, 600}, 2);
  changed.data<float>()[0] += 1;
  set_threads(3);
  const std::vector<float> after = product(x, changed, true);
  const PackedWeights packed({w});
  const std::vector<float> before = product(x, w, true);
  EXPECT_NE(before, after);
  w.data<float>()[0] += 1;
  std::atomic<int> wrong = 0;
  on_threads(60, [&](int64_t, int) {
    wrong += product(x, w, true) != (omp_get_thread_num() == 0 ? before : after);
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Products, PackedWeightsTest,
                         testing::Values(FloatProducts::exact, FloatProducts::rounded));

}  // namespace
}  // namespace linea

// Weights that are packed once for several products: the bits of products that each pack them.
#include "tensor/packed_weight.h"

#include <gtest/gtest.h>

#include "tensor/backend.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"
#include "tests/tensor/op_values.h"

namespace linea {
namespace {

// For products that round, too.
class PackedWeightTest : public testing::TestWithParam<FloatProducts> {
 protected:
  void SetUp() override {
    if (std::string(cpu_isa()) == "128-bit")
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

std::vector<float> product(const Tensor& x, const Tensor& w, bool transpose_w,
                           PackedWeight* packed = nullptr) {
  const Tensor y({x.size(0), w.size(transpose_w ? 0 : 1)}, DType::f32);
  ops::matmul_into(x, w, false, transpose_w, y, 0, packed);
  return y.to_vector<float>();
}

std::vector<float> linear(const Tensor& x, const ops::Linear& w) {
  const Tensor y({x.size(0), w.weight.size(0)}, DType::f32);
  ops::linear_into(x, {}, w, true, Tensor(), y);
  return y.to_vector<float>();
}

// 2100 terms are more than a block of either kernel.
TEST_P(PackedWeightTest, GivesTheSameBits) {
  const Tensor x = f32({120, 2100}, 1), w = f32({70, 2100}, 2), dy = f32({120, 70}, 3);
  for (const int threads : {1, 3}) {
    set_threads(threads);
    const std::vector<float> y = product(x, w, true), dx = product(dy, w, false),
                             activated = linear(x, {w});
    PackedWeight forward, backward;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(product(x, w, true, &forward), y);
      EXPECT_EQ(product(dy, w, false, &backward), dx);
      EXPECT_EQ(linear(x, {w, {}, &forward}), activated);
    }
    const Tensor rows = x.rows(0, 50);
    EXPECT_EQ(product(rows, w, true, &forward), std::vector<float>(y.begin(), y.begin() + 50 * 70));
  }
}

// A changed weight shows what is read.
TEST_P(PackedWeightTest, IsPackedOnce) {
  const Tensor x = f32({120, 600}, 1), w = f32({70, 600}, 2);
  PackedWeight packed;
  const std::vector<float> before = product(x, w, true, &packed), activated = linear(x, {w});
  w.data<float>()[0] += 1;
  EXPECT_EQ(product(x, w, true, &packed), before);
  EXPECT_EQ(linear(x, {w, {}, &packed}), activated);
  EXPECT_NE(product(x, w, true), before);
}

TEST_P(PackedWeightTest, HoldsOneWeightInOneForm) {
  const Tensor x = f32({120, 600}, 1), w = f32({600, 600}, 2), other = f32({600, 600}, 3);
  PackedWeight packed;
  product(x, w, true, &packed);
  for (const auto& [b, transpose] : {std::pair(other, true), {w, false}})
    expect_error(ErrorKind::usage, {"PackedWeight"},
                 [&, &b = b, transpose = transpose] { product(x, b, transpose, &packed); });
}

INSTANTIATE_TEST_SUITE_P(Products, PackedWeightTest,
                         testing::Values(FloatProducts::exact, FloatProducts::rounded));

}  // namespace
}  // namespace linea

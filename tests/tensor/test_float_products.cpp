// Products of float on a CPU: equal to the bit to fmaf in order, in blocks of 512 terms, at any
// number of threads. The base build calls BLAS, which promises no order.
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/backend.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea {
namespace {

constexpr int64_t kBlock = 512;

struct Problem {
  int64_t rows, cols, inner;
};

Tensor random_matrix(int64_t rows, int64_t cols, uint32_t stream_id) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * cols; ++i)
    values.push_back(static_cast<float>(
        random_normal({1, Purpose::test, stream_id, 0}, static_cast<uint64_t>(i))));
  return Tensor::from(values, {rows, cols});
}

float block_sum(const Problem& of, const float* a, const float* b, int64_t i, int64_t j,
                int64_t first, const float* before, bool reversed) {
  float sum = 0;
  const int64_t last = std::min(of.inner, first + kBlock);
  for (int64_t k = first; k < last; ++k) {
    const int64_t at = reversed ? first + last - 1 - k : k;
    sum = std::fmaf(a[i * of.inner + at], b[at * of.cols + j], sum);
  }
  return before == nullptr ? sum : *before + sum;
}

// a b, or c + a b.
std::vector<float> oracle(const Problem& of, const Tensor& a, const Tensor& b, const Tensor& c,
                          bool add, bool reversed = false) {
  std::vector<float> y(static_cast<size_t>(of.rows * of.cols));
  for (int64_t i = 0; i < of.rows; ++i)
    for (int64_t j = 0; j < of.cols; ++j) {
      float& sum = y[static_cast<size_t>(i * of.cols + j)];
      const float* before = add ? c.data<float>() + i * of.cols + j : nullptr;
      for (int64_t first = 0; first < of.inner; first += kBlock) {
        sum = block_sum(of, a.data<float>(), b.data<float>(), i, j, first, before, reversed);
        before = &sum;
      }
    }
  return y;
}

Tensor turned(const Tensor& x) {
  const int64_t rows = x.size(0), cols = x.size(1);
  const Tensor y({cols, rows}, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    y.data<float>()[i % cols * rows + i / cols] = x.data<float>()[i];
  return y;
}

TEST(FloatProducts, EqualTheirSumsToTheBitAtAnyNumberOfThreads) {
  if (std::string(cpu_isa()) == "128-bit")
    GTEST_SKIP() << "the base build computes products by BLAS";
  const int before = context().threads;
  for (const Problem& of : {Problem{8, 91, 91},
                            {97, 65, 33},
                            {16, 70, 513},
                            {11, 64, 1100},
                            {200, 130, 70},
                            {96, 64, 512}}) {
    const Tensor a = random_matrix(of.rows, of.inner, 1), b = random_matrix(of.inner, of.cols, 2),
                 c = random_matrix(of.rows, of.cols, 3);
    for (const bool add : {false, true}) {
      const std::vector<float> expected = oracle(of, a, b, c, add);
      EXPECT_NE(oracle(of, a, b, c, add, true), expected);  // the order shows
      for (int form = 0; form < 4; ++form)
        for (const int threads : {1, 3}) {
          set_threads(threads);
          const bool turn_a = (form & 1) != 0, turn_b = (form & 2) != 0;
          const Tensor y = c.clone();
          ops::matmul_into(turn_a ? turned(a) : a, turn_b ? turned(b) : b, turn_a, turn_b, y,
                           add ? 1 : 0);
          EXPECT_EQ(y.to_vector<float>(), expected)
              << of.rows << " x " << of.cols << " x " << of.inner << " form " << form;
        }
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace linea

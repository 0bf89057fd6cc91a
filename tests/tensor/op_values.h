// Tensors of known or random numbers in f32 and f64, comparisons with numbers in double, and the
// fixture of the tests that run in both dtypes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/ops.h"

namespace linea::op_tests {

using Values = std::vector<double>;

inline Tensor make(const Values& values, const Shape& shape, DType dtype) {
  if (dtype == DType::f64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

// Values that do not depend on the dtype.
inline Tensor random(const Shape& shape, uint32_t stream_id, DType dtype) {
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(random_normal({2, Purpose::test, stream_id, 0}, i));
  return make(values, shape, dtype);
}

// |found - expected| <= tolerance max(1, |expected|), element by element.
inline void expect_near(const Tensor& found, const Values& expected, const char* what) {
  const Values values = found.to_doubles();
  ASSERT_EQ(values.size(), expected.size()) << what;
  const double tolerance = found.dtype() == DType::f64 ? 1e-13 : 2e-6;
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " at " << i;
}

// A token for each row of logits, i32 [R].
inline Tensor sample_logits(const Tensor& logits, const SamplingParams& params,
                            const RandomStream& stream) {
  const ops::Sampled sampled{Tensor({logits.numel() / logits.size(-1)}, DType::i32)};
  ops::sample(OutputKind::logits, logits, logits.size(-1), params, stream, sampled);
  return sampled.tokens;
}

class DtypeTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
};

// Shared by several files; test_ops.cpp names its dtypes.
class Ops : public DtypeTest {};

}  // namespace linea::op_tests

// Outputs and gradients of two runs, bit by bit.
#pragma once

#include <gtest/gtest.h>

#include "nn/verify/conformance_tools.h"

namespace linea {

inline void expect_same_bits(const conformance::Outcome& a, const conformance::Outcome& b) {
  using namespace conformance;
  EXPECT_EQ(different_bits(a.y, b.y, anywhere), 0);
  EXPECT_EQ(different_bits(a.dq, b.dq, anywhere), 0);
  EXPECT_EQ(different_bits(a.dk, b.dk, anywhere), 0);
  EXPECT_EQ(different_bits(a.dv, b.dv, anywhere), 0);
}

}  // namespace linea

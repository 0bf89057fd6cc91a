// Whether rows of a causal attention depend on later ones.
#pragma once

#include <gtest/gtest.h>

#include "nn/verify/conformance_tools.h"

namespace linea {

// A decision [B,H,...] without what it holds of positions after `cut`, along the axis that is N long.
inline std::vector<int32_t> decided_up_to(const Tensor& decision, int64_t N, int64_t cut) {
  int axis = decision.shape().rank() - 1;
  while (decision.size(axis) != N) --axis;
  int64_t inner = 1;
  for (int after = axis + 1; after < decision.shape().rank(); ++after)
    inner *= decision.size(after);
  std::vector<int32_t> result;
  const std::vector<int32_t> all = decision.to_vector<int32_t>();
  for (size_t i = 0; i < all.size(); ++i)
    if (static_cast<int64_t>(i) / inner % N <= cut) result.push_back(all[i]);
  return result;
}

// The bits of rows up to each of 64 cuts, and what is decided for them, where q, k and v after it are others.
// Keys and values are 5 and 4 wide, in 2 heads of float32.
inline void expect_no_future(const Attention& attention, int64_t N) {
  using namespace conformance;
  const Sizes sizes{1, 2, N, 5, 4};
  const Inputs x = draw(sizes, DType::f32), other = draw(sizes, DType::f32, 10.0, 17);
  const Outcome before = run(attention, &Attention::forward, x, {});
  for (int64_t n = 0; n < 64; ++n) {
    const int64_t cut = n * (N - 1) / 64;
    const auto later = [cut](int64_t, int64_t i) { return i > cut; };
    const auto earlier = [cut](int64_t, int64_t i) { return i <= cut; };
    const Inputs changed{blend(x.q, other.q, later), blend(x.k, other.k, later),
                         blend(x.v, other.v, later), x.dy, x.gate};
    const Outcome after = run(attention, &Attention::forward, changed, {});
    EXPECT_EQ(different_bits(before.y, after.y, earlier), 0) << cut;
    ASSERT_EQ(after.decisions.size(), before.decisions.size());
    ASSERT_EQ(before.decisions.empty(), !attention.traits().decides);
    for (size_t of = 0; of < before.decisions.size(); ++of)
      EXPECT_EQ(decided_up_to(after.decisions[of], N, cut),
                decided_up_to(before.decisions[of], N, cut))
          << cut;
  }
}

}  // namespace linea

// Layer norm of a row, computed by its team.
#pragma once

#include <cmath>

#include "cuda/team.h"

namespace linea::cuda {

// sum_c term(c) over a row
template <typename A, typename Team, typename Term>
__device__ A row_sum(Team team, int64_t C, Term term) {
  A total = 0;
  for (int64_t c = team.rank(); c < C; c += Team::kThreads) total += term(c);
  return team.sum(total);
}

// y = weight (x - mean) scale + bias, scale = 1 / sqrt(variance + 1e-5).   (Ba 2016)
template <typename A>
struct RowNorm {
  A mean, scale;

  // The norm of the row element(0), ..., element(C - 1).
  template <typename Team, typename Element>
  __device__ static RowNorm of(Team team, int64_t C, Element element) {
    const A mean = row_sum<A>(team, C, element) / static_cast<A>(C);
    const A variance =
        row_sum<A>(team, C, [&](int64_t c) { return (element(c) - mean) * (element(c) - mean); });
    return {mean,
            A(1) / std::sqrt(variance / static_cast<A>(C) + static_cast<A>(kLayerNormEpsilon))};
  }
  __device__ A of_element(A x, A weight, A bias) const {
    return weight * ((x - mean) * scale) + bias;
  }
};

}  // namespace linea::cuda

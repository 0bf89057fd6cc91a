// The step-by-step form of a model compared with its parallel form.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "autograd/gradcheck.h"
#include "nn/transformer.h"

namespace linea {

// ids [B,N]: the outputs of each step are those of the whole sequence, at every position.
inline void expect_steps_are_rows(const Transformer& model, const Tensor& ids) {
  const int64_t B = ids.size(0), N = ids.size(1);
  const Tensor whole = model.forward(ids, false).value();
  const std::vector<int32_t> tokens = ids.to_vector<int32_t>();
  DecodeState state = model.start(B);
  for (int64_t n = 0; n < N; ++n) {
    std::vector<int32_t> now;
    for (int64_t b = 0; b < B; ++b) now.push_back(tokens[static_cast<size_t>(b * N + n)]);
    const Tensor outputs = model.step(state, Tensor::from(now, {B}));
    for (int64_t b = 0; b < B; ++b)
      EXPECT_LE(relative_error(outputs.select(b), whole.select(b).select(n)), 1e-4) << n;
  }
}

}  // namespace linea

// Keys of largest q.k: limits, ties, and decisions that are alike everywhere.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention/future.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> topk(int64_t keys, const Sizes& sizes, DType dtype) {
  AttentionOptions options =
      options_of("topk", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings["keys"] = keys;
  return make_attention(options);
}

std::vector<int32_t> chosen(const Attention& attention, const Inputs& x,
                            const AttentionMask& mask) {
  return run(attention, &Attention::forward, x, mask).decisions.at(0).to_vector<int32_t>();
}

TEST(Topk, OfAllKeysIsSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  for (const bool causal : {true, false})
    for (const int64_t keys : {90, 2000000000}) {
      const Outcome expected = run(*softmax, &Attention::forward, x, {causal, {}}),
                    found =
                        run(*topk(keys, sizes, DType::f64), &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
      EXPECT_LE(gradient_error(found, expected), 1e-12);
    }
}

// Three keys with equal scores: the first are chosen, and the query itself next to them.
TEST(Topk, OfEqualsChoosesTheFirst) {
  Inputs x = draw({1, 1, 5, 2, 3}, DType::f32);
  x.q = Tensor::full(x.q.shape(), DType::f32, 1.0);
  x.k = Tensor::full(x.k.shape(), DType::f32, 0.5);
  const std::vector<int32_t> expected = {0, -1, -1, 0, 1, -1, 0, 1, 2, 0, 1, 3, 0, 1, 4};
  EXPECT_EQ(chosen(*topk(2, {1, 1, 5, 2, 3}, DType::f32), x, {}), expected);
}

TEST(Topk, DecidesAlikeInFloatAndDoubleAndWithAnyThreads) {
  const Sizes sizes{2, 3, 300, 8, 4};
  const Inputs x = draw(sizes, DType::f32);
  const std::vector<int32_t> expected = chosen(*topk(9, sizes, DType::f32), x, {});
  EXPECT_EQ(chosen(*topk(9, sizes, DType::f64), in_dtype(x, DType::f64), {}), expected);
  for (const int threads : {1, 2, 3}) {
    const Threads own(threads);
    EXPECT_EQ(chosen(*topk(9, sizes, DType::f32), x, {}), expected);
  }
}

TEST(Topk, ChoicesDoNotDependOnTheFuture) {
  expect_no_future(*topk(6, {1, 2, 130, 5, 4}, DType::f32), 130);
}

// A replayed choice is taken whatever q and k are now.
TEST(Decisions, AreReplayedInOrder) {
  const Sizes sizes{1, 2, 40, 5, 4};
  const Inputs x = draw(sizes, DType::f64), other = draw(sizes, DType::f64, 1.0, 21);
  const auto attention = topk(3, sizes, DType::f64);
  const Outcome first = run(*attention, &Attention::forward, x, {});
  const ReplayDecisions replay(first.decisions);
  EXPECT_EQ(different_decisions(run(*attention, &Attention::forward, other, {}).decisions,
                                first.decisions),
            0);
  EXPECT_THROW(run(*attention, &Attention::forward, x, {}), Error);  // nothing is left to replay
}

}  // namespace
}  // namespace linea

// Parts of sequences on the device (autograd/sequence_part.h): states that are handed on, and those that a scan
// combines, are those of whole sequences.
#include "tests/nn/in_parts.h"

#include "tests/cuda/attention_variants.h"

namespace linea::cuda_tests {
namespace {

using conformance::Inputs;
using conformance::Outcome;

void expect_near(const Outcome& whole, const Outcome& parts, double most) {
  EXPECT_LE(relative_error(whole.y, parts.y), most);
  EXPECT_LE(gradient_error(whole, parts), most);
}

// Logs of gates let states decay to exp(-400) and below within a part.
TEST(CudaSequenceParts, HaveTheStatesOfWholeSequences) {
  if (a_share()) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const On device(kCuda);
  int64_t scanned = 0;
  for (AttentionOptions options : tried_variants()) {
    SCOPED_TRACE(label_of(options));
    options.heads = 3;
    options.key_size = 5;
    options.value_size = 7;
    options.dtype = DType::f64;
    const std::unique_ptr<Attention> attention = make_attention(options);
    const AttentionTraits& traits = attention->traits();
    if (!traits.takes_parts) continue;
    const Inputs x =
        conformance::draw({2, 3, 301, 5, 7}, DType::f64, traits.signed_weights ? 0.5 : 1);
    const AttentionMask mask{true, Tensor::from(std::vector<int32_t>{100, 301}, {2})};
    const Outcome whole = run(*attention, &Attention::forward, x, mask);
    const std::vector<int64_t> cuts{0, 64, 256, 301};
    expect_near(whole, in_parts(*attention, x, mask, cuts, 2), 1e-10);
    if (!traits.denominators || traits.straight_through) continue;
    ++scanned;
    expect_near(whole, in_parts(*attention, x, mask, cuts, -1), 1e-10);
  }
  EXPECT_GE(scanned, 6);
}

// Heads of 32 in bf16 are walked (cuda/walk.h).
TEST(CudaSequenceParts, WalksAreNearThoseOfWholeSequences) {
  if (a_share()) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const On device(kCuda);
  AttentionOptions options = options_of("linear", 3, 32, 32, DType::bf16);
  const std::unique_ptr<Attention> attention = make_attention(options);
  const Inputs x = conformance::draw({2, 3, 301, 32, 32}, DType::bf16, 1);
  const AttentionMask mask{true, {}};
  const Outcome whole = run(*attention, &Attention::forward, x, mask);
  for (const int64_t tile : {2, -1})
    expect_near(whole, in_parts(*attention, x, mask, {0, 64, 256, 301}, tile), 2e-2);
}

}  // namespace
}  // namespace linea::cuda_tests

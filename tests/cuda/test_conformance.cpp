// Attentions pass their conformance checks on the device too: in double its gradients are proved by
// differences, nothing leaks from the future or from padding, two runs give the same bits.
#include "nn/verify/conformance.h"

#include <algorithm>
#include <cctype>

#include "tests/cuda/attention_variants.h"

namespace linea::cuda_tests {
namespace {

std::string letters_of(const testing::TestParamInfo<AttentionOptions>& info) {
  std::string name = label_of(info.param);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class CudaConformance : public testing::TestWithParam<AttentionOptions> {};

// Those that an emulated GPU goes through in seconds.
TEST_P(CudaConformance, ChecksPass) {
  if (a_share()) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const On device(kCuda);
  int count = 0;
  for (const char* name : {"outputs = quadratic", "gradients = differences", "step = outputs",
                           "causality", "two runs", "padding: bits"})
    for (const Check& check : check_attention(GetParam(), {.quick = true, .only = name})) {
      ++count;
      EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " > " << check.bound
                                << " at " << check.detail;
    }
  EXPECT_GE(count, 7);
}

INSTANTIATE_TEST_SUITE_P(Attentions, CudaConformance, testing::ValuesIn(tried_variants()),
                         letters_of);

}  // namespace
}  // namespace linea::cuda_tests

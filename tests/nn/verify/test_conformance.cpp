// Every registered attention passes the conformance checks. That each check catches the defect it
// is for is in test_sabotage_*.cpp.
#include "nn/verify/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

namespace linea {
namespace {

std::vector<AttentionOptions> all_variants() {
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : attentions())
    for (const AttentionOptions& variant : entry.variant_options()) result.push_back(variant);
  return result;
}

std::string letters_of(const testing::TestParamInfo<AttentionOptions>& info) {
  std::string name = label_of(info.param);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Conformance : public testing::TestWithParam<AttentionOptions> {};

TEST_P(Conformance, EveryCheckPasses) {
  const std::vector<Check> checks = check_attention(GetParam(), {});
  EXPECT_EQ(checks.size(), 22u);
  for (const Check& check : checks)
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " > " << check.bound
                              << " at " << check.detail;
}

INSTANTIATE_TEST_SUITE_P(Attentions, Conformance, testing::ValuesIn(all_variants()), letters_of);

TEST(Registry, ListsEveryMechanism) {
  std::vector<std::string> labels;
  for (const AttentionOptions& variant : all_variants()) labels.push_back(label_of(variant));
  for (const char* label : {"linear --feature elu",
                            "linear --feature relu",
                            "linear --feature exp",
                            "linear --feature square",
                            "linear --feature dpfp --nu 2",
                            "linear --feature elu --rule gated",
                            "linear --feature elu --rule delta",
                            "linear --feature elu --rule gated-delta",
                            "performer --feature positive --features 16",
                            "performer --feature hyperbolic --features 16",
                            "performer --feature trig --features 16",
                            "performer --feature relu --features 16",
                            "soft-vq --codes 16",
                            "vq --codes 16",
                            "softmax",
                            "softmax --window 40",
                            "linear --feature silu --rule delta --key-norm unit",
                            "linear --feature elu --rule decay",
                            "gdn",
                            "gdn --beta-range 2",
                            "gla",
                            "kda",
                            "retnet",
                            "ssd"})
    EXPECT_NE(std::find(labels.begin(), labels.end(), label), labels.end()) << label;
}

TEST(Registry, AnUnknownNameListsTheNames) {
  AttentionOptions options;
  options.name = "nonesuch";
  try {
    make_attention(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("nonesuch"), std::string::npos);
    EXPECT_NE(std::string(error.what())
                  .find("gdn, gla, kda, linear, performer, retnet, soft-vq, softmax, ssd, vq"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace linea

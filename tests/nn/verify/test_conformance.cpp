// Every registered attention passes the conformance checks. That each check catches the defect it
// is for is in test_sabotage_*.cpp.
#include "nn/verify/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "tests/sanitized.h"

namespace linea {
namespace {

std::vector<AttentionOptions> all_variants() {
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : attentions())
    for (const AttentionOptions& variant : entry.variant_options()) result.push_back(variant);
  return result;
}

// Under the sanitizers the first of each attention, and a third of the other values of settings.
std::vector<AttentionOptions> checked_variants() {
  if (!kSanitized) return all_variants();
  std::vector<AttentionOptions> result, others;
  std::set<std::string> seen;
  for (const AttentionOptions& variant : all_variants()) {
    const bool first = seen.insert(variant.name).second;
    bool is_new = first;
    for (const auto& [key, value] : variant.settings)
      is_new |= seen.insert(variant.name + " " + key + " " + to_string(value)).second;
    if (is_new) (first ? result : others).push_back(variant);
  }
  for (const AttentionOptions& variant : share_of(others, 3)) result.push_back(variant);
  return result;
}

std::string letters_of(const testing::TestParamInfo<AttentionOptions>& info) {
  std::string name = label_of(info.param);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

// Enough under the sanitizers, and for the kernels of an older processor, which run the same sums.
bool quick() { return kSanitized || std::getenv("LINEA_ISA") != nullptr; }

class Conformance : public testing::TestWithParam<AttentionOptions> {};

TEST_P(Conformance, EveryCheckPasses) {
  AttentionOptions options = GetParam();
  options.image_width = options.image_channels = 1;
  const bool is_causal = make_smallest(options)->traits().not_causal.empty();
  const std::vector<Check> checks = check_attention(GetParam(), {quick(), "", make_attention});
  EXPECT_EQ(checks.size(), (is_causal ? 22u : 17u) - (quick() ? 3u : 0u));  // long sums
  for (const Check& check : checks)
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " > " << check.bound
                              << " at " << check.detail;
}

INSTANTIATE_TEST_SUITE_P(Attentions, Conformance, testing::ValuesIn(checked_variants()),
                         letters_of);

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
                            "sparse --pattern band:40",
                            "topk --keys 8",
                            "lsh --rounds 3 --buckets 6 --window 20",
                            "routing --clusters 3 --window 20",
                            "routing --clusters 5 --window 7 --local-heads 1",
                            "routing --clusters 3 --window 70 --assign top",
                            "sinkhorn --block 16",
                            "clustered --clusters 9 --bits 12 --iterations 4",
                            "improved-clustered --clusters 9 --bits 12 --iterations 4 --keys 7",
                            "informer --factor 3",
                            "linformer --slots 8",
                            "linformer --slots 8 --share none",
                            "induced --slots 8",
                            "luna --slots 8",
                            "nystrom --slots 8 --conv 5",
                            "average",
                            "synthesizer --synth random --rank 6",
                            "synthesizer --synth dense",
                            "prior --prior gaussian",
                            "prior --prior span",
                            "mca --ratio 3",
                            "pooling --window 20 --outer 90",
                            "bpt --keys 3",
                            "bigbird --block 16 --randoms 2",
                            "axial",
                            "star",
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
    EXPECT_NE(
        std::string(error.what()).find("pooling, prior, retnet, routing, sinkhorn, soft-vq, "),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace linea

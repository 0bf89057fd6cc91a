// Further attentions that are wrong on purpose (nn/verify/breaks.h): each must fail the conformance
// check that is there for its defect.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/verify/breaks.h"
#include "nn/verify/conformance.h"
#include "tests/sanitized.h"

namespace linea::sabotage {

inline Check check_of(const AttentionFactory& make, const std::string& name,
                      const AttentionOptions& variant = {}, bool quick = true) {
  const std::vector<Check> checks = check_attention(variant, {quick, name, make});
  for (const Check& check : checks)
    if (check.name == name) return check;
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

inline void expect_caught(const AttentionFactory& right_one, const AttentionFactory& wrong_one,
                          const std::string& name, const AttentionOptions& variant, bool quick) {
  if (kSanitized) GTEST_SKIP() << "a check of the checks; the release build's tests do it";
  const Check right = check_of(right_one, name, variant, quick),
              wrong = check_of(wrong_one, name, variant, quick);
  EXPECT_TRUE(right.passed) << name << ": " << right.measured << " at " << right.detail;
  EXPECT_FALSE(wrong.passed) << name << ": " << wrong.measured;
}

template <typename Made>
std::unique_ptr<Attention> make(const AttentionOptions& options) {
  return std::make_unique<Made>(options);
}

// Expects that `Right` passes and `Wrong` fails the check `name`.
template <typename Wrong, typename Right = Saboteur>
void expect_caught(const std::string& name, const AttentionOptions& variant = {},
                   bool quick = true) {
  expect_caught(make<Right>, make<Wrong>, name, variant, quick);
}

// Expects that a break of `linea verify` fails it.
inline void expect_break_caught(const std::string& broken, const std::string& name,
                                const AttentionOptions& variant = {}) {
  expect_caught(make<Saboteur>, find_break(broken).make, name, variant, true);
}

inline AttentionOptions with_feature(const std::string& feature) {
  AttentionOptions options;
  options.settings["feature"] = feature;
  return options;
}

}  // namespace linea::sabotage

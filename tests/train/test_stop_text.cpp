#include "train/inference/stop_text.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace linea {
namespace {

// What is printed of a text that arrives in these parts.
std::vector<std::string> printed(const std::vector<std::string>& stops,
                                 const std::vector<std::string>& parts) {
  StopText text(stops);
  std::vector<std::string> result;
  for (const std::string& part : parts) result.push_back(text.add(part));
  result.push_back(text.stopped() ? "STOPPED" : text.rest());
  return result;
}

using Parts = std::vector<std::string>;

TEST(StopText, EndsBeforeTheFirstStop) {
  EXPECT_EQ(printed({}, {"a", "b"}), (Parts{"a", "b", ""}));
  EXPECT_EQ(printed({"b"}, {"a", "b", "c"}), (Parts{"a", "", "", "STOPPED"}));
  EXPECT_EQ(printed({"cd", "bc"}, {"abcde"}), (Parts{"a", "STOPPED"}));
  EXPECT_EQ(printed({"\n\n"}, {"a\n", "b\n", "\n", "c"}), (Parts{"a", "\nb", "", "", "STOPPED"}));
}

TEST(StopText, HoldsBackWhatMayBecomeAStop) {
  EXPECT_EQ(printed({"abc"}, {"xa", "b", "d"}), (Parts{"x", "", "abd", ""}));
  EXPECT_EQ(printed({"abc"}, {"x", "ab"}), (Parts{"x", "", "ab"}));
  EXPECT_EQ(printed({"aab"}, {"a", "a", "a", "b"}), (Parts{"", "", "a", "", "STOPPED"}));
  EXPECT_EQ(printed({"abcd", "bx"}, {"ab", "x"}), (Parts{"", "a", "STOPPED"}));
}

TEST(StopText, AnEmptyStopIsRefused) {
  expect_error(ErrorKind::usage, {"`stop` is empty"}, [] { StopText({"a", ""}); });
}

}  // namespace
}  // namespace linea

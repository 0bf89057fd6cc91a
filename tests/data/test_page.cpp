// The encoding of images in pages; tests/cli/test_report.cpp reads whole pages.
#include "data/page.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

TEST(Page, EncodesTheVectorsOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xFB\xEF\xFF"), "++//");
}

}  // namespace
}  // namespace linea

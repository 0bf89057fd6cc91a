// Tests with every memory access checked, which takes long: each ninth of what a
// test goes through, unless LINEA_TEST_SHARE says another share.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("LINEA_TEST_SHARE", "9", 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// The layout of sampled images.
#include "train/samples.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace linea {
namespace {

TEST(GridColumns, FillTheGrid) {
  for (const auto& [count, classes, columns] : std::vector<std::array<int64_t, 3>>{{100, 10, 10},
                                                                                   {10, 10, 10},
                                                                                   {64, 10, 8},
                                                                                   {1000, 10, 20},
                                                                                   {64, 2, 8},
                                                                                   {26, 26, 26},
                                                                                   {100, 0, 10},
                                                                                   {16, 0, 8},
                                                                                   {64, 0, 8},
                                                                                   {7, 0, 7},
                                                                                   {12, 0, 4},
                                                                                   {50, 0, 10},
                                                                                   {1, 0, 1},
                                                                                   {1, 10, 1},
                                                                                   {5, 10, 5},
                                                                                   {97, 0, 7},
                                                                                   {100, 1, 10},
                                                                                   {300, 100, 20}})
    EXPECT_EQ(grid_columns(count, classes), columns) << count << " of " << classes;
  for (int64_t count = 1; count < 300; ++count) {
    const int64_t columns = grid_columns(count, 0), lines = (count + columns - 1) / columns;
    EXPECT_LE(lines * columns - count, 5) << count;
    EXPECT_LT(lines, 4 * columns) << count;
  }
}

}  // namespace
}  // namespace linea

#include "data/image_set.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace linea {
namespace {

TEST(ImageSets, SplitOffTakesTheLast) {
  ImageSet set{1, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {10, 11, 12}};
  const ImageSet rest = split_off(set, 2);
  EXPECT_EQ(set.pixels, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(set.labels, (std::vector<uint8_t>{10}));
  EXPECT_EQ(rest.pixels, (std::vector<uint8_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(rest.labels, (std::vector<uint8_t>{11, 12}));
  EXPECT_EQ(rest.channels, 3);
  ImageSet all = set;
  append(all, rest);
  EXPECT_EQ(all.pixels.back(), 9);
  EXPECT_EQ(all.count(), 3);
  expect_error(ErrorKind::usage, {"4 of 3"}, [&] { split_off(all, 4); });
  expect_error(ErrorKind::usage, {"1 x 1 x 1", "1 x 1 x 3"}, [&] {
    append(all, {1, 1, {7}, {0}});
  });
}

TEST(ImageSets, ValIsTheLastPartOfTrainAtLeastOneImage) {
  ImageSplits splits{{1, 1, {1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}}, {}, {}};
  split_off_val(splits, 2, "folder");
  EXPECT_EQ(splits.val.labels, (std::vector<uint8_t>{4, 5}));
  split_off_val(splits, 12, "folder");
  EXPECT_EQ(splits.val.labels, (std::vector<uint8_t>{3}));
  EXPECT_EQ(splits.train.labels, (std::vector<uint8_t>{1, 2}));
  split_off_val(splits, 2, "folder");
  expect_error(ErrorKind::input, {"folder", "1 training image"},
               [&] { split_off_val(splits, 2, "folder"); });
}

TEST(ImageSets, ShrinkAveragesEachColorAlone) {
  ImageSet set{4, 3, std::vector<uint8_t>(2 * 4 * 4 * 3, 0), {0, 1}};
  const auto at = [&](size_t image, size_t row, size_t column, size_t channel) -> uint8_t& {
    return set.pixels[((image * 4 + row) * 4 + column) * 3 + channel];
  };
  at(0, 0, 2, 0) = 100;  // red of the upper right quarter
  at(0, 1, 3, 0) = 61;
  at(1, 3, 0, 2) = 6;  // blue of the lower left quarter of the second image
  const ImageSet half = shrink(set, 2), one = shrink(set, 1);
  EXPECT_EQ(half.pixels, (std::vector<uint8_t>{0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0,
                                               0, 0, 0, 0,  0, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(half.labels, set.labels);
  EXPECT_EQ(one.pixels, (std::vector<uint8_t>{10, 0, 0, 0, 0, 0}));
  expect_error(ErrorKind::usage, {"side 4", "to 3"}, [&] { shrink(set, 3); });
}

TEST(ImageSets, LumaKeepsGrays) {
  for (int gray = 0; gray < 256; ++gray) EXPECT_EQ(luma(gray, gray, gray), gray);
  EXPECT_EQ(luma(255, 0, 0), 76);
  EXPECT_EQ(luma(0, 255, 0), 150);
  EXPECT_EQ(luma(0, 0, 255), 29);
}

}  // namespace
}  // namespace linea

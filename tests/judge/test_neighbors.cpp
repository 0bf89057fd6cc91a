// Nearest images against a plain loop over all pairs, in double.
#include "judge/neighbors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "tensor/context.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

ImageSet random_images(int64_t count, int64_t side, int64_t channels, uint32_t stream_id) {
  ImageSet set{side, channels, {}, std::vector<uint8_t>(static_cast<size_t>(count))};
  for (uint64_t i = 0; i < static_cast<uint64_t>(count * set.image_bytes()); ++i)
    set.pixels.push_back(
        static_cast<uint8_t>(random_below({7, Purpose::test, stream_id, 0}, i, 256)));
  return set;
}

Neighbor slow_nearest(const ImageSet& images, size_t image, const ImageSet& among) {
  const auto bytes = static_cast<size_t>(images.image_bytes());
  Neighbor nearest{-1, 1e300};
  for (size_t other = 0; other < among.labels.size(); ++other) {
    double sum = 0;
    for (size_t i = 0; i < bytes; ++i)
      sum +=
          std::pow((images.pixels[image * bytes + i] - among.pixels[other * bytes + i]) / 255.0, 2);
    if (std::sqrt(sum) < nearest.distance) nearest = {static_cast<int64_t>(other), std::sqrt(sum)};
  }
  return nearest;
}

TEST(Neighbors, AreThoseOfAPlainLoop) {
  // 200 x 200 pixels have more squares of differences than an int holds.
  for (const auto& [count, others, side] : {std::tuple{50, 30, 5}, {2, 3, 200}, {1, 1, 1}}) {
    const ImageSet images = random_images(count, side, 3, 1),
                   among = random_images(others, side, 3, 2);
    int64_t done = 0;
    const auto nearest = nearest_images(images, among, [&](int64_t now, int64_t all) {
      EXPECT_EQ(all, count);
      done = now;
    });
    EXPECT_EQ(done, count);
    ASSERT_EQ(nearest.size(), images.labels.size());
    for (size_t i = 0; i < nearest.size(); ++i) {
      const Neighbor expected = slow_nearest(images, i, among);
      EXPECT_EQ(nearest[i].index, expected.index) << i;
      EXPECT_NEAR(nearest[i].distance, expected.distance, 1e-10) << i;
    }
  }
}

TEST(Neighbors, FindsExtremesCopiesAndTheFirstOfEquals) {
  ImageSet black{200, 1, std::vector<uint8_t>(40000), {0}}, white = black;
  std::fill(white.pixels.begin(), white.pixels.end(), 255);
  EXPECT_DOUBLE_EQ(nearest_images(black, white)[0].distance, 200);
  ImageSet both = white;
  append(both, black);
  append(both, black);
  EXPECT_EQ(nearest_images(black, both)[0].index, 1);
  EXPECT_EQ(nearest_images(black, both)[0].distance, 0);
  expect_error(ErrorKind::usage, {"40000", "25"},
               [&] { nearest_images(black, random_images(1, 5, 1, 1)); });
}

TEST(Neighbors, AreTheSameAtAnyNumberOfThreads) {
  const ImageSet images = random_images(70, 4, 1, 1), among = random_images(40, 4, 1, 2);
  const int threads = context().threads;
  std::vector<std::vector<Neighbor>> results;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    results.push_back(nearest_images(images, among));
  }
  set_threads(threads);
  for (size_t i = 0; i < 70; ++i)
    for (const size_t run : {1, 2}) {
      EXPECT_EQ(results[run][i].index, results[0][i].index);
      EXPECT_EQ(results[run][i].distance, results[0][i].distance);
    }
}

TEST(Neighbors, MirrorsImagesLeftToRight) {
  const ImageSet set{2, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {0}};
  EXPECT_EQ(mirrored(set).pixels, (std::vector<uint8_t>{4, 5, 6, 1, 2, 3, 10, 11, 12, 7, 8, 9}));
  EXPECT_EQ(mirrored(mirrored(set)).pixels, set.pixels);
}

}  // namespace
}  // namespace linea

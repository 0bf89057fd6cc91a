// The times that `linea bench scaling` computes, by hand.
#include "bench/scaling_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace linea::bench {
namespace {

TEST(ScalingModel, ASumTakesItsMessagesItsBytesAndItsAdditions) {
  const ScalingModel model{{}, 1e-9, 0};
  EXPECT_EQ(model.sum_seconds(1e6, 1, {1, 1}), 0);
  // 2 (1 message + half of 4 MB) + the additions
  EXPECT_NEAR(model.sum_seconds(1e6, 2, {1e-3, 1e9}), 2 * (1e-3 + 2e-3) + 1e-3, 1e-12);
  EXPECT_NEAR(model.sum_seconds(1e6, 4, {1e-3, 1e9}), 2 * (3e-3 + 3e-3) + 1e-3, 1e-12);
  // 16 groups of 16: 30 messages each way; 15/16 of the bytes, then 15/16 of a sixteenth, as doubles one way.
  EXPECT_NEAR(model.sum_seconds(1e6, 256, {1e-3, 1e9}),
              60e-3 + 2 * 4e-3 * 15 / 16 + 12e-3 / 16 * 15 / 16 + 1e-3, 1e-12);
}

TEST(ScalingModel, SumsAreHiddenByWhatIsComputedAfterTheyAreReady) {
  // Each sum takes 2 ms with two ranks.
  const Network network{0, 1e9};
  const auto step = [&](std::vector<Bucket> buckets, double share = 1) {
    return ScalingModel{std::move(buckets), 0, 0}.step_seconds(10e-3, share, 2, network);
  };
  EXPECT_NEAR(step({{5e5, 1e-3}, {5e5, 6e-3}}), 10e-3, 1e-12);
  EXPECT_NEAR(step({{5e5, 1e-3}, {5e5, 9e-3}}), 11e-3, 1e-12);
  EXPECT_NEAR(step({{5e5, 9e-3}, {5e5, 9e-3}}), 13e-3, 1e-12);  // the second waits for the first
  EXPECT_NEAR(step({{5e5, 9e-3}, {5e5, 9e-3}}, 2), 22e-3, 1e-12);
}

TEST(ScalingModel, TheSlowestOfManyRanksIsLater) {
  const ScalingModel model{{}, 0, 0.01};
  EXPECT_EQ(model.step_seconds(1, 1, 1, {}), 1);
  EXPECT_NEAR(model.step_seconds(1, 1, 4096, {}), 1 + 0.01 * std::sqrt(2 * std::log(4096.0)),
              1e-12);
}

// Five parts take 3 rounds each way, in each of two layers.
TEST(ScalingModel, AScanSendsStatesInRounds) {
  EXPECT_NEAR(ScalingModel::scan_seconds(7, {1e6, 3e6}, 5, {1e-3, 1e9}), 2 + 2 * 3 * (2e-3 + 4e-3),
              1e-12);
}

}  // namespace
}  // namespace linea::bench

// Which updates are made, in a record of losses and norms.
#include "train/run/update_guard.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "train/run/signals.h"

namespace linea {
namespace {

TEST(UpdateGuard, FiveNonfiniteUpdatesInARowAreTooMany) {
  UpdateGuard guard(0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(guard.record_skip(false));
    guard.record_update(1, 1);
  }
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(guard.record_skip(false));
  EXPECT_TRUE(guard.record_skip(false));
  EXPECT_EQ(guard.state().skipped, 17);
  EXPECT_EQ(guard.loss_limit(), 0);
}

TEST(UpdateGuard, LimitsFollowTheHistory) {
  UpdateGuard guard(3);
  for (int i = 0; i < 49; ++i) guard.record_update(2, 4);
  EXPECT_EQ(guard.loss_limit(), 0) << "too early to tell";
  guard.record_update(2, 4);
  EXPECT_NEAR(guard.loss_limit(), 6, 1e-12);
  EXPECT_NEAR(guard.norm_limit(), 12, 1e-12);
  for (int i = 0; i < 1000; ++i) guard.record_update(1, 8);
  EXPECT_NEAR(guard.loss_limit(), 3, 1e-6);
  EXPECT_NEAR(guard.norm_limit(), 24, 1e-6);
}

TEST(UpdateGuard, AfterFiveSpikesTheNextIsAccepted) {
  UpdateGuard guard(2);
  for (int i = 0; i < 60; ++i) guard.record_update(1, 1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_GT(guard.loss_limit(), 0);
    EXPECT_FALSE(guard.record_skip(true));
  }
  EXPECT_EQ(guard.loss_limit(), 0);
  guard.record_update(10, 10);
  EXPECT_GT(guard.loss_limit(), 2);
  UpdateGuard other(2);
  other.restore(guard.state());
  EXPECT_EQ(other.loss_limit(), guard.loss_limit());
}

TEST(Duration, ParsesHumanNotation) {
  EXPECT_EQ(parse_duration(""), 0);
  EXPECT_EQ(parse_duration("90"), 90);
  EXPECT_EQ(parse_duration("3h50m"), 3 * 3600 + 50 * 60);
  EXPECT_EQ(parse_duration("2d1s"), 2 * 86400 + 1);
  for (const std::string wrong :
       {"h", "3x", "-1", "0", "0s", "3h50", "1.5h", "3h m", " 3h", "99999999999999999999s"})
    expect_error(ErrorKind::usage, {"`max_time`", wrong, "3h50m"}, [&] { parse_duration(wrong); });
}

}  // namespace
}  // namespace linea

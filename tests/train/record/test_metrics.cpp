// The record of a run: lines are whole, come back after a full disk, and are cut where a run goes
// on.
#include "train/record/metrics.h"

#include <cmath>

#include "tests/data/data_helpers.h"
#include "tests/data/faulty_disk.h"

namespace linea {
namespace {

using MetricsFile = DataTest;

TEST_F(MetricsFile, NumbersAndNotes) {
  {
    Metrics metrics(path("m"), 0, false);
    metrics.record(
        1, {{"loss", 0.5}, {"tokens", 12}, {"norm", NAN}, {"up", INFINITY}, {"down", -INFINITY}});
    metrics.record(2, {{"loss", 0.25}},
                   {{"incident", "not finite"}, {"first", "a \"quoted\" \xff name"}});
  }
  EXPECT_EQ(
      read_file(path("m")),
      "{\"step\":1,\"loss\":0.5,\"tokens\":12,\"norm\":\"nan\",\"up\":\"inf\",\"down\":\"-inf\"}\n"
      "{\"step\":2,\"loss\":0.25,\"incident\":\"not finite\",\"first\":\"a \\\"quoted\\\" "
      "\\\\xFF name\"}\n");
}

TEST_F(MetricsFile, IsTruncatedOnResume) {
  put("m", "{\"step\":1}\n{\"step\":3}\nno json\n{\"nothing\":1}\n{\"step\":2}\n{\"step\":2,\"los");
  Metrics metrics(path("m"), 2, false);
  EXPECT_EQ(read_file(path("m")), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(MetricsFile, EvaluationsAreRestored) {
  put("m",
      "{\"step\":1,\"val_loss\":3,\"val_tokens\":7}\n{\"step\":9,\"val_loss\":1,\"val_tokens\":7}"
      "\n");
  Metrics metrics(path("m"), 5, false);
  metrics.record(2, {{"val_loss", 2}, {"val_tokens", 8}});
  metrics.record(3, {{"loss", 1}});
  metrics.record(4, {{"val_loss", NAN}});
  ASSERT_EQ(metrics.validations().size(), 3u);
  EXPECT_EQ(metrics.validations().at(1).loss, 3);
  EXPECT_EQ(metrics.validations().at(1).tokens, 7);
  EXPECT_EQ(metrics.validations().at(2).tokens, 8);
  EXPECT_TRUE(std::isnan(metrics.validations().at(4).loss));
}

// Losses over unlike numbers of tokens do not compete.
TEST(Validations, TheBestIsTheLowestOverTheUsualTokens) {
  const auto all = [](int64_t) { return true; };
  const Validations equal = {{10, {0.5, 7}}, {20, {0.4, 7}}, {30, {0.45, 7}}, {40, {NAN, 7}}};
  EXPECT_EQ(best_step(equal, all), 20);
  EXPECT_EQ(best_step(equal, [](int64_t step) { return step != 20; }), 30);
  EXPECT_TRUE(uncompared_steps(equal).empty());
  const Validations old = {{10, {0.5, 7}}, {20, {0.4, 7}}, {30, {0.3, 9}}};
  EXPECT_EQ(best_step(old, all), 20);
  EXPECT_EQ(uncompared_steps(old), (std::vector<int64_t>{30}));
}

TEST_F(MetricsFile, IsRecreatedWhenDeleted) {
  Metrics metrics(path("m"), 0, false);
  metrics.record(1, {});
  std::filesystem::remove(path("m"));
  metrics.record(2, {});
  EXPECT_EQ(read_file(path("m")), "{\"step\":2}\n");
}

TEST_F(MetricsFile, LinesAreBufferedOnAFullDisk) {
  Metrics metrics(path("m"), 0, false);
  metrics.record(1, {});
  {
    FailingCall full(0, ENOSPC);
    metrics.record(2, {});
  }
  EXPECT_NE(metrics.problem().find("No space left"), std::string::npos) << metrics.problem();
  EXPECT_EQ(read_file(path("m")), "{\"step\":1}\n");
  metrics.record(3, {});
  EXPECT_EQ(metrics.problem(), "");
  EXPECT_EQ(read_file(path("m")), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
}

}  // namespace
}  // namespace linea

// The evaluations in a row that did not improve, and the run that ends by them.
#include "train/run/early_stop.h"

#include <cmath>

#include "tests/cli/program.h"

namespace linea {
namespace {

Validations with_losses(const std::vector<double>& losses) {
  Validations result;
  for (const double loss : losses)
    result[static_cast<int64_t>(10 * (result.size() + 1))] = {loss, 7};
  return result;
}

TEST(EarlyStop, CountsEvaluationsThatDoNotImprove) {
  EXPECT_EQ(validations_without_improvement({}), 0);
  EXPECT_EQ(validations_without_improvement(with_losses({3, 2, 1})), 0);
  EXPECT_EQ(validations_without_improvement(with_losses({1, 2, 1.5})), 2);
  EXPECT_EQ(validations_without_improvement(with_losses({1, 1, 0.5, 0.5})), 1) << "equal";
  EXPECT_EQ(validations_without_improvement(with_losses({1, NAN, NAN})), 2);
  EXPECT_EQ(validations_without_improvement(with_losses({NAN, 1})), 0);
  Validations older = with_losses({1, 2, 3});
  older[40] = {0.5, 9};  // the whole split
  EXPECT_EQ(validations_without_improvement(older), 2);
  EXPECT_FALSE(stops_early(older, 0));
  EXPECT_TRUE(stops_early(older, 2));
  EXPECT_FALSE(stops_early(older, 3));
}

class EarlyStopRun : public ProgramTest {
 protected:
  // Steps so wide that the loss soon rises.
  const std::string kRising =
      kText + " --eval-every 2 --keep-last 1 --lr 0.5 --min-lr 0.5 --warmup 0 --early-stop 3";
};

TEST_F(EarlyStopRun, EndsAndKeepsTheBestCheckpoint) {
  put_text("text.txt", 600);
  const Outcome outcome = done(kRising + " --steps 200 --out run");
  double lowest = 1e30;
  int64_t best = -1, count = 0, last = 0;
  for (const nlohmann::json& record : metrics("run")) {
    if (!record.contains("val_loss")) continue;
    EXPECT_LT(count, 3) << "an evaluation after the third without improvement";
    last = record["step"];
    const double loss = record["val_loss"].is_number() ? record["val_loss"].get<double>() : NAN;
    count = loss < lowest ? 0 : count + 1;
    if (loss <= lowest) best = last;
    if (loss < lowest) lowest = loss;
    EXPECT_EQ(record.contains("whole_val_loss"), count == 3);
  }
  ASSERT_EQ(count, 3);
  ASSERT_LT(last, 200);
  EXPECT_NE(outcome.err.find(fmt::format("stopped early after step {}", last)), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("--early-stop 3"), std::string::npos);
  EXPECT_EQ(names_in("run/checkpoints"),
            (Words{fmt::format("step-{:08}", best), fmt::format("step-{:08}", last)}));
  EXPECT_TRUE(exists(fmt::format("run/samples/step-{:08}.txt", last)));
  EXPECT_NE(bytes("run/report.html").find("finished"), std::string::npos);

  const Outcome nothing = done("train --resume run");
  EXPECT_NE(nothing.err.find("0 steps"), std::string::npos) << nothing.err;
  EXPECT_NE(nothing.err.find("a larger --early-stop, or 0"), std::string::npos) << nothing.err;
  done(fmt::format("train --resume run --early-stop 0 --steps {}", last + 2));
  EXPECT_TRUE(exists(fmt::format("run/checkpoints/step-{:08}", last + 2)));
}

// The count goes across a stop.
TEST_F(EarlyStopRun, ResumedStopsAtTheSameStep) {
  put_text("text.txt", 600);
  done(kRising + " --steps 200 --out straight");
  const int64_t last = metrics("straight").back()["step"];
  done(kRising + fmt::format(" --steps {} --out resumed", last - 2));
  done("train --resume resumed --steps 200");
  EXPECT_EQ(metrics("resumed").back()["step"], last);
  // state.json differs: the first part recorded the mean of the losses at its end.
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string name = fmt::format("/checkpoints/step-{:08}/{}", last, file);
    EXPECT_TRUE(bytes("straight" + name) == bytes("resumed" + name)) << name;
  }
}

TEST_F(EarlyStopRun, NeedsEvaluations) {
  refused(2, kCopy + " --early-stop 3 --out run", {"--early-stop is 3", "--eval-every"});
}

}  // namespace
}  // namespace linea

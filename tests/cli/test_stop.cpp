// Signals to a run: it stops between two batches, saves the last complete step, and resumed it ends
// with the bits of a run that nothing stopped.
#include "tests/cli/program.h"

namespace linea {
namespace {

class Stop : public ProgramTest {
 protected:
  // Sends the signal so many milliseconds after the file exists.
  Outcome stopped(const std::string& line, const std::string& file, int signal, int delay) const {
    Child child(path(""), words_of(line));
    for (int i = 0; i < 10000 && !exists(file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    child.signal(signal);
    return child.wait();
  }
};

// Without a stop between them, the batches of this step take minutes.
TEST_F(Stop, BetweenAccumulatedBatches) {
  const std::string settings =
      kCopy + " --attention vq --codes 4 --steps 3 --dropout 0.1 --accumulate ";
  done(settings + "3 --out straight");
  for (const int signal : {SIGINT, SIGHUP}) {
    const Outcome outcome = stopped(settings + "1000000 --out run", "run/metrics.jsonl", signal,
                                    kSanitized ? 1000 : 200);
    EXPECT_EQ(outcome.code, 75) << outcome.err;
    EXPECT_NE(outcome.err.find("stopped after step 0 and saved"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("\nsaving after this batch; press again") != std::string::npos,
              signal == SIGINT)
        << outcome.err;
    // Batches are numbered over all steps: those of step 0 are the same.
    done("train --resume run --accumulate 3");
    expect_same_checkpoint("straight", "run", 3);
    remove("run");
  }
}

TEST_F(Stop, SavesTheLastCompleteStep) {
  const std::string settings = kCopy +
                               " --attention performer --features 5 --redraw 1 --save-every 1 "
                               "--keep-last 0 --steps 3 --accumulate " +
                               std::to_string(kSanitized ? 200 : 600) + " --out ";
  const Outcome outcome = stopped(settings + "run", "run/checkpoints/step-00000001", SIGINT, 0);
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_NE(outcome.err.find(
                fmt::format("stopped after step {} and saved", names_in("run/checkpoints").size())),
            std::string::npos)
      << outcome.err;
  done("train --resume run");
  done(settings + "straight");
  for (const int step : {1, 2, 3}) expect_same_checkpoint("straight", "run", step);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
}

TEST_F(Stop, WithinAnEvaluation) {
  put_text("text.txt", 400000);
  const std::string settings = kText + " --steps 1 --out ";
  Child child(path(""), words_of(settings + "run"));
  while (!exists("run/metrics.jsonl") || bytes("run/metrics.jsonl").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  child.signal(SIGHUP);
  const Outcome outcome = child.wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(metrics("run").size(), 1u) << "the step alone";
  done("train --resume run");
  done(settings + "straight");
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
}

}  // namespace
}  // namespace linea

// linea compare: ordinary runs of several attentions, and tables of them.
#include "tests/cli/program.h"

namespace linea {
namespace {

const std::string kCompare =
    "compare --tasks copy --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2 ";

class CompareTest : public ProgramTest {
 protected:
  nlohmann::json result(const std::string& folder) const {
    return nlohmann::json::parse(bytes(folder + "/compare.json"));
  }
};

TEST_F(CompareTest, RunsAreOrdinaryAndFinishedOnesAreSkipped) {
  done(kCompare + "--attentions linear,image-local-2d --steps 3 --out c");
  const nlohmann::json first = result("c");
  ASSERT_EQ(first["runs"].size(), 3u);
  EXPECT_EQ(first["runs"][0]["label"], "softmax");  // always
  EXPECT_EQ(first["runs"][1]["state"], "finished");
  EXPECT_EQ(first["runs"][2]["reason"], "needs an image");
  EXPECT_EQ(json_lines(done("runs c --json").out).size(), 2u);
  done("plot c/copy/linear/seed-1 --svg c.svg");
  const std::string metrics = bytes("c/copy/linear/seed-1/metrics.jsonl");
  done("compare --resume c --attentions local");
  EXPECT_EQ(bytes("c/copy/linear/seed-1/metrics.jsonl"), metrics);
  EXPECT_EQ(result("c")["runs"].size(), 4u);
  EXPECT_EQ(result("c")["runs"][1]["score"], first["runs"][1]["score"]);
  EXPECT_NE(bytes("c/compare.md").find("| local |"), std::string::npos);
}

TEST_F(CompareTest, AFailedRunIsARow) {
  const std::string bad = "--steps 30 --lr 1e30 --min-lr 1e30 --warmup 0 --clip 0 ";
  const Outcome outcome = linea(kCompare + bad + "--attentions linear --out c");
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  const nlohmann::json runs = result("c")["runs"];
  ASSERT_EQ(runs.size(), 2u);
  for (const nlohmann::json& run : runs) EXPECT_EQ(run["state"], "failed") << run;
  EXPECT_NE(bytes("c/compare.md").find("failed: "), std::string::npos);
}

// Tasks with one answer take attentions without a causal form, and have an accuracy for a score.
TEST_F(CompareTest, OneAnswerIsForAllAttentions) {
  done("compare --tasks listops,copy --attentions linformer --dim 16 --ffn 32 --steps 2 --out c");
  const nlohmann::json runs = result("c")["runs"];
  for (const nlohmann::json& run : runs) {
    const bool left_out = run["task"] == "copy" && run["attention"] != "softmax";
    EXPECT_EQ(run["state"], left_out ? "excluded" : "finished") << run;
    if (left_out) continue;
    EXPECT_NEAR(run["score"].get<double>(), 100 * run["val_accuracy"].get<double>(), 1e-6) << run;
  }
}

TEST_F(CompareTest, SeedsHaveADeviation) {
  done(kCompare + "--attentions softmax --steps 2 --seeds 1,copy=2 --out c");
  EXPECT_TRUE(exists("c/copy/softmax/seed-2/config.toml"));
  EXPECT_EQ(result("c")["attentions"][0]["mean"]["seeds"], 2);
}

TEST_F(CompareTest, RefusesBeforeTheFirstRun) {
  refused(2, "compare --tasks copy", {"--out"});
  refused(2, "compare --out c", {"--tasks"});
  refused(2, kCompare + "--attentions nothing --out c", {"nothing"});
  refused(2, "compare --tasks nothing --out c", {"nothing", "copy"});
  refused(3, "compare --tasks text --attentions linear --data missing.txt --out c",
          {"missing.txt"});
  refused(3, "compare --tasks text --attentions linear --out c", {"text", "--data"});
  EXPECT_FALSE(exists("c"));
  done(kCompare + "--attentions softmax --steps 1 --out c");
  refused(2, kCompare + "--attentions softmax --steps 1 --out c", {"--resume c"});
  refused(2, "compare --resume c --steps 4", {"--steps"});
}

TEST_F(CompareTest, StoppedByASignalItContinues) {
  Child child(path("."), words_of(kCompare + "--attentions linear --steps 100000 --out c"));
  while (!exists("c/copy/softmax/seed-1/metrics.jsonl"))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().code, 75);
  EXPECT_EQ(result("c")["runs"][0]["state"], "stopped");
  EXPECT_EQ(result("c")["runs"][1]["state"], "unfinished");
  EXPECT_FALSE(exists("c/copy/linear"));
}

}  // namespace
}  // namespace linea

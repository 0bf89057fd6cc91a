// linea compare: ordinary runs of several attentions, and tables of them.
#include "tests/cli/program.h"

namespace linea {
namespace {

const std::string kCompare =
    "compare --tasks copy --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2 "
    "--threads 1 --lengths 32 ";

class CompareTest : public ProgramTest {
 protected:
  nlohmann::json result(const std::string& folder) const {
    return nlohmann::json::parse(bytes(folder + "/compare.json"));
  }
  // Without what a clock says, and what a run that was resumed has held.
  nlohmann::json repeatable(const std::string& folder) const {
    nlohmann::json json = result(folder);
    for (nlohmann::json& run : json["runs"])
      for (const char* key : {"elapsed_s", "tokens_per_s", "peak_bytes"}) run.erase(key);
    for (nlohmann::json& row : json["attentions"])
      for (nlohmann::json& step : row["cost"]["steps"])
        for (const char* key : {"step_s", "speed"}) step.erase(key);
    return json;
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
  done("plot c --svg c.svg");
  for (const char* name : {">copy/linear<", ">copy/softmax<", ">linear<"})
    EXPECT_EQ(bytes("c.svg").find(name) != std::string::npos, name[1] == 'l' || name[1] == 's')
        << name;
  const std::string metrics = bytes("c/copy/linear/seed-1/metrics.jsonl");
  done("compare --resume c --attentions local");
  EXPECT_EQ(bytes("c/copy/linear/seed-1/metrics.jsonl"), metrics);
  EXPECT_EQ(result("c")["runs"].size(), 4u);
  EXPECT_EQ(result("c")["runs"][1]["score"], first["runs"][1]["score"]);
  EXPECT_NE(bytes("c/compare.md").find("| local † |"), std::string::npos);
}

TEST_F(CompareTest, SettingsThatFitNoTaskAreRefusedBeforeAnythingIsWritten) {
  refused(2, kCompare + "--attentions linear --skip-blank --out c", {"--skip-blank"});
  EXPECT_FALSE(exists("c"));
}

// The folders of runs are large: compare.json stands for those that were deleted.
TEST_F(CompareTest, DeletedRunsStayRows) {
  done(kCompare + "--attentions linear --steps 3 --out c");
  const nlohmann::json first = result("c");
  const std::string table = bytes("c/compare.md");
  std::filesystem::remove_all(path("c/copy/softmax"));
  done("compare --resume c");
  EXPECT_EQ(result("c"), first);
  EXPECT_EQ(bytes("c/compare.md"), table);
  EXPECT_FALSE(exists("c/copy/softmax"));
  // Other lengths are measured without other runs.
  std::string request = bytes("c/compare.toml");
  ASSERT_NE(request.find("\"32\""), std::string::npos) << request;
  write_file_atomically(path("c/compare.toml"),
                        request.replace(request.find("\"32\""), 4, "\"16\""));
  done("compare --resume c");
  EXPECT_FALSE(exists("c/copy/softmax"));
  EXPECT_EQ(result("c")["runs"], first["runs"]);
  EXPECT_EQ(result("c")["attentions"][0]["cost"]["steps"][0]["length"], 16);
  for (const auto& [from, to] : {std::pair{"\"settings\": \"", "\"settings\": \"0"},
                                 {"\"state\": \"finished\"", "\"state\": 1"},
                                 {"val_answers", "no_answers"}}) {
    std::filesystem::remove_all(path("c/copy/softmax"));
    std::string json = bytes("c/compare.json");
    ASSERT_NE(json.find(from), std::string::npos) << from;
    write_file_atomically(path("c/compare.json"),
                          json.replace(json.find(from), std::strlen(from), to));
    done("compare --resume c");
    EXPECT_TRUE(exists("c/copy/softmax/seed-1")) << to;
  }
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
  done(
      "compare --tasks listops,copy --attentions linformer,linformer:slots=8 --dim 16 --ffn 32 "
      "--steps 2 "
      "--lengths 32 --out c");
  const nlohmann::json runs = result("c")["runs"];
  for (const nlohmann::json& run : runs) {
    const bool left_out = run["task"] == "copy" && run["attention"] != "softmax";
    EXPECT_EQ(run["state"], left_out ? "excluded" : "finished") << run;
    if (left_out) continue;
    EXPECT_NEAR(run["score"].get<double>(), 100 * run["val_accuracy"].get<double>(), 1e-6) << run;
  }
  const nlohmann::json rows = result("c")["attentions"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0]["reads_much"]);
  EXPECT_TRUE(rows[1]["reads_much"]);  // 64 slots, of 128 positions
  EXPECT_FALSE(rows[2]["reads_much"]);
  EXPECT_NE(bytes("c/compare.md").find(" = |"), std::string::npos);  // nothing is learned
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
  refused(3, "compare --resume nowhere", {"nowhere holds no comparison"});
  EXPECT_FALSE(exists("nowhere"));
  std::string request = bytes("c/compare.toml");
  request.replace(request.find("steps = \"1\""), 11, "steps = \"2\"");
  write_file_atomically(path("c/compare.toml"), request);
  refused(2, "compare --resume c", {"c/copy/softmax/seed-1", "steps"});
  refused(2, "compare --tasks copy --lengths 1 --out d", {"lengths", "1"});
  refused(2, "compare --tasks copy --references all --out d", {"references", "lra"});
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

TEST_F(CompareTest, KilledAndResumedItHasTheSameTable) {
  const std::string command = kCompare + "--attentions linear --steps 30 --out ";
  done(command + "a");
  Child child(path("."), words_of(command + "b"));
  while (!exists("b/copy/linear/seed-1/metrics.jsonl"))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  child.signal(SIGKILL);
  child.wait();
  done("compare --resume b");
  EXPECT_EQ(repeatable("a"), repeatable("b"));
  EXPECT_GT(result("a")["attentions"][1]["cost"]["steps"][0]["memory"], 0);
}

// The finished run stays, and the rest can be done once there is room.
TEST_F(CompareTest, AFullDiskLosesNoFinishedRun) {
  done(kCompare + "--attentions softmax --steps 2 --out c");
  const std::string metrics = bytes("c/copy/softmax/seed-1/metrics.jsonl");
  const Outcome full = linea(words_of("compare --resume c --attentions linear"), 36000);
  EXPECT_EQ(full.code, 6) << full.err;
  EXPECT_EQ(bytes("c/copy/softmax/seed-1/metrics.jsonl"), metrics);
  done("compare --resume c");
  const nlohmann::json runs = result("c")["runs"];
  for (const nlohmann::json& run : runs) EXPECT_EQ(run["state"], "finished") << run;
  EXPECT_EQ(bytes("c/copy/softmax/seed-1/metrics.jsonl"), metrics);
}

// The image, and the page, are there whatever has finished.
TEST_F(CompareTest, AnImageOfEveryOutcome) {
  done(kCompare + "--attentions softmax --steps 1 --out one");
  EXPECT_NE(bytes("one/compare.svg").find(">softmax<"), std::string::npos);
  EXPECT_NE(bytes("one/compare.svg").find("<desc>attention, copy"), std::string::npos);
  EXPECT_NE(bytes("one/report.html").find("copy/softmax/seed-1/report.html"), std::string::npos);
  const std::string bad = "--steps 30 --lr 1e30 --min-lr 1e30 --warmup 0 --clip 0 ";
  EXPECT_EQ(linea(kCompare + bad + "--attentions axial --out none").code, 4);
  EXPECT_NE(bytes("none/compare.svg").find("</svg>"), std::string::npos);
  EXPECT_NE(bytes("none/report.html").find("needs an image"), std::string::npos);
}

}  // namespace
}  // namespace linea

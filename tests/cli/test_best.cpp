// The best checkpoint of a run: the lowest loss over the rows that all validations share.
#include "tests/cli/program.h"

namespace linea {
namespace {

class Best : public ProgramTest {
 protected:
  // Trains a small model by a preset whose split is larger than a validation.
  void train(const std::string& preset, const std::string& more) const {
    done("train --preset " + preset +
         " --layers 1 --heads 1 --dim 8 --ffn 8 --steps 6 --warmup 0 --batch 4 --eval-every 2 "
         "--sample-every 0 --keep-last 1 --out " +
         preset + more);
  }
  std::vector<nlohmann::json> validations(const std::string& run) const {
    std::vector<nlohmann::json> all;
    for (const nlohmann::json& record : metrics(run))
      if (record.contains("val_loss")) all.push_back(record);
    return all;
  }
};

TEST_F(Best, IsTheLowestOverEqualRows) {
  put_text("text.txt", 1500000);
  for (const auto& [preset, more] : {std::pair{"digits-demo", ""},
                                     {"digits-linear", ""},
                                     {"shakespeare-cpu", " --data text.txt"}}) {
    const std::string run = preset;
    if (kSanitized && run.starts_with("digits")) continue;  // whose split is small there
    train(preset, more);
    const std::vector<nlohmann::json> all = validations(preset);
    ASSERT_EQ(all.size(), 3u) << preset;
    nlohmann::json best = all[0];
    for (const nlohmann::json& one : all) {
      EXPECT_EQ(one["val_tokens"], all[0]["val_tokens"]) << preset;
      EXPECT_EQ(one.contains("whole_val_loss"), one == all.back()) << preset;
      if (one["val_loss"] <= best["val_loss"]) best = one;
    }
    EXPECT_EQ(best["step"], 6) << preset << ": the loss falls";
    const nlohmann::json last = all.back();
    EXPECT_GT(last["whole_val_tokens"], last["val_tokens"]) << preset;
    EXPECT_NE(last["whole_val_loss"], last["val_loss"]) << preset;

    const nlohmann::json info = json_lines(done("info --json " + run).out).at(0);
    EXPECT_EQ(info["best"]["step"], best["step"]) << preset;
    EXPECT_TRUE(info["uncompared_steps"].empty()) << preset;
    EXPECT_EQ(json_lines(done("runs --json " + run).out).at(0)["best_step"], best["step"]);
    const nlohmann::json score = json_lines(done("eval --json " + run).out).at(0);
    for (const char* key : {"loss", "bits", "accuracy", "tokens"})
      EXPECT_EQ(score[key], last[std::string("whole_val_") + key]) << preset << " " << key;
  }
}

// Where training never improves on the weights that it starts from, they are saved as step 0.
TEST_F(Best, MayBeTheStart) {
  done(kDigits + " --steps 30 --lr 0.01 --warmup 0 --out base");
  const Outcome outcome = done(
      "train --init-from base --lr 0.2 --warmup 0 --steps 40 --eval-every 4 --early-stop 2 "
      "--keep-last 1 --out run");
  EXPECT_NE(outcome.err.find("stopped early after step 8"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("the best checkpoint is that of step 0"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(names_in("run/checkpoints"), (Words{"step-00000000", "step-00000008"}));
}

// The last validation of such a run covers the whole split.
TEST_F(Best, OfAnOlderRunLeavesOutTheWholeSplitAndSaysSo) {
  done(kDigits + " --steps 4 --save-every 2 --out run");
  put("run/metrics.jsonl",
      "{\"step\":2,\"val_loss\":2,\"val_tokens\":9}\n"
      "{\"step\":4,\"val_loss\":1,\"val_tokens\":12}\n");
  const std::string note = "step 4 is not compared";
  EXPECT_NE(done("info run").out.find(note), std::string::npos);
  const nlohmann::json listed = json_lines(done("runs --json run").out).at(0);
  EXPECT_EQ(listed["best_step"], 2);
  EXPECT_EQ(listed["uncompared_steps"], nlohmann::json({4}));
  EXPECT_NE(done("sample run --best --count 1 --out x.png").err.find(note), std::string::npos);
  done("train --resume run --steps 6");  // whose last validation has as many tokens as the first
  EXPECT_NE(bytes("run/report.html").find("compared"), std::string::npos);
}

}  // namespace
}  // namespace linea

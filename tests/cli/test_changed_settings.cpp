// What a resumed or derived run may change, and what it records of that.
#include "tests/cli/program.h"

namespace linea {
namespace {

class ChangedSettings : public ProgramTest {
 protected:
  void expect_said(const Outcome& outcome, const std::string& text, bool said = true) const {
    EXPECT_EQ(outcome.err.find(text) != std::string::npos, said) << text << "\n" << outcome.err;
  }
  // The values of `key` in the records that have it, by step.
  std::map<int64_t, nlohmann::json> recorded(const std::string& run, const std::string& key) const {
    std::map<int64_t, nlohmann::json> result;
    for (const nlohmann::json& record : metrics(run))
      if (record.contains(key)) {
        EXPECT_EQ(result.count(record["step"]), 0u) << record;
        result[record["step"]] = record[key];
      }
    return result;
  }
};

TEST_F(ChangedSettings, ResumeRefusesThoseOfTheModel) {
  put_text("text.txt", 600);
  done(kCopy + " --steps 4 --out run");
  const std::string config = bytes("run/config.toml");
  const auto refused_flag = [&](const std::string& flags, const std::string& was) {
    refused(2, "train --resume run --steps 8 " + flags, {was + " in run and cannot change"});
  };
  refused_flag("--dim 32", "--dim was 16");
  refused_flag("--ffn 16", "--ffn was 32");
  refused_flag("--length 32", "--length was 16");
  refused_flag("--layers 2", "--layers was 1");
  refused_flag("--heads 1", "--heads was 2");
  refused_flag("--tie", "--tie was false");
  refused_flag("--positions sinusoidal", "--positions was learned");
  refused_flag("--attention softmax", "--attention was linear");
  refused_flag("--feature dpfp --nu 2", "--feature was elu");
  refused_flag("--rule gated", "--rule was sum");
  refused_flag("--task text --data text.txt", "--task was copy");
  refused(2, "train --resume run --attention softmax --dry-run", {"--init-from run"});
  EXPECT_EQ(bytes("run/config.toml"), config);
  // Nor by hand: the checkpoint knows.
  std::string changed = config;
  changed.replace(changed.find("\"linear\""), 8, "\"softmax\"");
  changed.erase(changed.find("feature ="), changed.find("layers =") - changed.find("feature ="));
  put("run/config.toml", changed);
  refused(2, "train --resume run --steps 8", {"--attention was linear in run"}, true);
}

// More steps stretch the schedule, unless its end stays where it was.
TEST_F(ChangedSettings, AJumpOfTheLearningRateIsAnnounced) {
  const std::string start = kCopy + " --warmup 0 --lr 0.001 --min-lr 0.0001";
  done(start + " --steps 20 --out run");
  copy("run", "as-before");
  expect_said(done("train --resume run --steps 40"),
              "the learning rate of step 21 becomes 0.00055, 5.5 times the 0.0001 of the schedule "
              "before, which ends at step 20; --decay-steps 20 keeps that end");
  EXPECT_GT(recorded("run", "lr").at(30), 0.0001);
  expect_said(done("train --resume as-before --steps 40 --decay-steps 20"), "the learning rate of",
              false);
  EXPECT_EQ(recorded("as-before", "lr").at(30), 0.0001);
  EXPECT_EQ(recorded("as-before", "lr").at(40), 0.0001);
  done(start + " --steps 40 --decay-steps 20 --out straight");
  expect_same_checkpoint("straight", "as-before", 40);

  expect_said(done("train --resume run --steps 41 --lr 0.002"),
              "the learning rate of step 41 becomes 0.000103");
  done(kCopy + " --warmup 0 --lr 0.001 --min-lr 0 --steps 4 --out zero");
  copy("zero", "stays");
  expect_said(done("train --resume stays --steps 8 --decay-steps 4"), "the learning rate of",
              false);
  expect_said(
      done("train --resume zero --steps 8"),
      "the learning rate of step 5 becomes 0.0005, instead of the 0 of the schedule before");
  expect_said(done(kCopy + " --steps 9 --decay-steps 4 --warmup 4 --out flat"),
              "--warmup 4 is not below --decay-steps 4");
}

TEST_F(ChangedSettings, ANewRunRefusesOtherWidths) {
  done(kCopy + " --steps 4 --out run");
  refused(2, "train --init-from run --dim 32 --out other",
          {"--dim was 16 in run and cannot change"});
  refused(2, "train --init-from run --ffn 64 --out other", {"--ffn was 32 in run"});
  EXPECT_FALSE(exists("other"));
  done("train --init-from run --attention softmax --steps 1 --out other");
}

TEST_F(ChangedSettings, AreWrittenWithAStep) {
  done(kCopy + " --steps 4 --out run");
  const std::string config = bytes("run/config.toml");
  Outcome outcome = done("train --resume run --lr 0.01");
  expect_said(outcome, "done: 0 steps: run is at its last step 4; give --steps M to continue");
  expect_said(outcome, "other settings", false);
  outcome = done("train --resume run --steps 1");
  expect_said(outcome, "run is at a later step 4");
  EXPECT_EQ(bytes("run/config.toml"), config);
  EXPECT_TRUE(recorded("run", "settings").empty());

  expect_said(done("train --resume run --steps 8 --lr 0.002"),
              "continues with other settings: steps was 4, is 8; lr was 0.001, is 0.002");
  EXPECT_NE(bytes("run/config.toml"), config);
  const std::map<int64_t, nlohmann::json> history{{5, "steps was 4, is 8; lr was 0.001, is 0.002"}};
  EXPECT_EQ(recorded("run", "settings"), history);
  // From the same step again, with the settings that are now the run's.
  copy("run", "again");
  remove("again/checkpoints/step-00000008");
  done("train --resume again");
  EXPECT_EQ(recorded("again", "settings"), history);
  expect_same_checkpoint("run", "again", 8);
  // Every setting counts, not only those of training.
  done("train --resume run --steps 9 --eval-every 3 --tensorboard");
  EXPECT_EQ(recorded("run", "settings").at(9),
            "steps was 8, is 9; eval_every was 0, is 3; tensorboard was false, is true");
}

// Records of a run add up.
TEST_F(ChangedSettings, ElapsedTimeContinues) {
  done(kCopy + " --steps 10 --out run");
  std::string text;
  for (nlohmann::json record : metrics("run")) {
    if (record.contains("elapsed_s")) record["elapsed_s"] = 1000;
    text += dump_json(record) + "\n";
  }
  put("run/metrics.jsonl", text);
  done("train --resume run --steps 20");
  const auto elapsed = recorded("run", "loss").size();
  EXPECT_EQ(elapsed, 2u);
  for (const nlohmann::json& record : metrics("run"))
    if (record["step"] == 20) {
      EXPECT_GT(record["elapsed_s"].get<double>(), 1000) << record;
      EXPECT_LT(record["elapsed_s"].get<double>(), 1100) << record;
      if (record.contains("tokens_per_s")) {
        EXPECT_GT(record["tokens_per_s"].get<double>(), 100) << "of the time since the resume";
      }
    }
}

TEST_F(ChangedSettings, TheLearningRateMustNotRise) {
  refused(2, kCopy + " --lr 1e-3 --min-lr 2e-3 --out run", {"--min-lr is 0.002, above --lr 0.001"});
  refused(2, kCopy + " --lr 5e-5 --out run", {"--min-lr is 0.0001"});
  EXPECT_FALSE(exists("run"));
  const std::string warning = "the learning rate never reaches --lr 0.001";
  expect_said(done(kCopy + " --steps 2 --warmup 2 --out run"), warning);
  expect_said(done("train --resume run"), warning, false);
  expect_said(done(kCopy + " --steps 2 --warmup 1 --min-lr 1e-3 --out other"), warning, false);
}

TEST_F(ChangedSettings, OnlyAPartIsCalledAPart) {
  const std::string part = "part of the split", run = " --steps 2 --warmup 0 --eval-every 1 --out ";
  expect_said(done(kCopy + run + "copy"), part, false);
  put_text("text.txt", 1400000);
  const Outcome outcome = done(kText + run + "text");
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find(part), outcome.err.rfind(part)) << "the end takes all" << outcome.err;
}

TEST_F(ChangedSettings, OneThreadIsSingular) {
  const Outcome outcome = done(kCopy + " --steps 1 --threads 1 --out run");
  expect_said(outcome, ", 1 thread;");
  expect_said(outcome, "done: 1 step in ");
}

}  // namespace
}  // namespace linea

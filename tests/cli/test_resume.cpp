// Resuming a run: whatever ended it, the result equals that of an undisturbed run, bit
// for bit.
#include "tests/cli/program.h"

namespace linea {
namespace {

class Resume : public ProgramTest {
 protected:
  void wait_for(const std::function<bool()>& holds) const {
    for (int i = 0; i < 10000 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(holds()) << "waited in vain";
  }
  int64_t size_of_file(const std::string& name) const {
    std::error_code error;
    const auto size = fs::file_size(path(name), error);
    return error ? 0 : static_cast<int64_t>(size);
  }
};

TEST_F(Resume, FromAnEarlierCheckpointIsBitExact) {
  put_text("text.txt", 2000);
  const std::string settings =
      " --accumulate 2 --steps 12 --save-every 4 --eval-every 6 --keep-last 0";
  const std::vector<std::string> tasks{
      kDigits + " --attention linear",
      kDigits + " --attention softmax --optimizer radam",
      kText + " --feature square --optimizer adam",
      kCopy + " --attention linear --weight-decay 0.1 --reversible",
      kText + " --attention performer --features 5 --redraw 3",
      kText + " --attention vq --codes 6",
      kText + " --attention soft-vq --codes 6 --anneal 0.1",
      kText + " --rule gated",
      kText + " --attention luna --slots 5",
      kText + " --attention routing --clusters 3 --window 4 --local-heads 1",
      kText + " --attention sinkhorn --block 4 --sort-noise 0.5",
      kText + " --rule delta",
      kText + " --rule gated-delta --memory long",
      "train --task text --data text.txt --length 16 --attention linear:rule=gated/softmax/vq "
      "--codes 6 --layers 4 --heads 2 --dim 16 --ffn 32 --batch 2",
      "train --task text --data text.txt --length 16 --attention gdn/gdn/gdn/softmax --layers 4 "
      "--heads 2 --dim 16 --ffn 32 --batch 2 --layer-convolution 1d --attention-output gated",
      "train --task text --data text.txt --length 24 --attention lsh/softmax --rounds 2 --buckets "
      "4 --redraw 3 --layers 2 --heads 2 --dim 16 --ffn 32 --batch 2 --reversible",
      "train --task text --data text.txt --length 24 --attention informer --factor 1 --layers 2 "
      "--heads 2 --dim 16 --ffn 32 --batch 2 --reversible",
      "train --task text --data text.txt --length 24 --attention "
      "prior:prior=span/mca/bpt:keys=2/average/synthesizer/pooling --layers 6 --heads 2 --dim 16 "
      "--ffn 32 --batch 2",
      "train --task text --data text.txt --length 24 --attention kda/kda/kda/softmax --layers 4 "
      "--heads 2 --dim 16 --ffn 32 --batch 2 --positions rotary --optimizer muon",
      "train --task text --data text.txt --length 24 --attention ssd/softmax:window=8/gla/retnet "
      "--layers 4 --heads 2 --dim 16 --ffn 32 --batch 2 --recompute",
      kDigits + " --optimizer muon --layer-convolution 2d --attention-output gated",
      kDigits + " --class-token --class-embedding every --class-dropout 0.3",
      kDigits +
          " --class-token --class-embedding every --rule gated --memory long --optimizer muon "
          "--positions learned+grid --layer-convolution 2d",
      kText +
          " --rule gated --optimizer muon --layer-convolution 1d --tie "
          "--attention-output gated --no-bias",
      kDigits + " --skip-blank --rule gated --layer-convolution 2d --class-token",
      "train --task retrieval --associations 6 --layers 1 --heads 1 --dim 8 --batch 2"};
  for (size_t i = 0; i < tasks.size(); i += kSanitized ? 3 : 1) {
    const std::string& task = tasks[i];
    const bool packed = task.find("--skip-blank") != std::string::npos;
    done(task + settings + (packed ? "" : " --dropout 0.1") + " --out straight");
    copy("straight", "resumed");
    remove("resumed/checkpoints/step-00000012");
    std::ofstream(path("resumed/metrics.jsonl"), std::ios::app)
        << "{\"step\":12,\"lo";  // a kill in the middle
    const Outcome outcome = done("train --resume resumed");
    EXPECT_NE(outcome.err.find("from step 8"), std::string::npos) << outcome.err;
    expect_same_checkpoint("straight", "resumed", 12);
    EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("resumed"));
    EXPECT_EQ(bytes("straight/config.toml"), bytes("resumed/config.toml"));
    remove("straight");
    remove("resumed");
  }
}

TEST_F(Resume, AfterASignalIsBitExact) {
  const int steps = kSanitized ? 200 : 600;
  const std::string settings =
      " --dropout 0.1 --accumulate 2 --keep-last 0 --steps " + std::to_string(steps);
  for (const std::string& task : {kCopy + " --attention linear", kCopy + " --attention softmax"}) {
    if (kSanitized && task.ends_with("linear")) continue;
    done(task + settings + " --out straight");
    for (const int signal : {SIGINT, SIGHUP, SIGTERM, SIGUSR1}) {
      Child child(path(""), words_of(task + settings + " --out run"));
      wait_for([&] { return size_of_file("run/metrics.jsonl") > 0; });
      child.signal(signal);
      const Outcome stopped = child.wait();
      EXPECT_EQ(stopped.code, 75) << stopped.err;
      EXPECT_NE(lines_of(stopped.err).back().find("linea train --resume run"), std::string::npos)
          << stopped.err;
      ASSERT_EQ(names_in("run/checkpoints").size(), 1u);
      const std::string checkpoint = names_in("run/checkpoints")[0];
      EXPECT_LT(checkpoint, fmt::format("step-{:08}", steps));
      EXPECT_NE(
          stopped.err.find(fmt::format("stopped after step {}", std::stoi(checkpoint.substr(5)))),
          std::string::npos)
          << stopped.err << checkpoint;
      EXPECT_EQ(names_in("run/checkpoints/" + checkpoint).size(), 4u);
      EXPECT_EQ(linea("eval run --json").code, 0);
      done("train --resume run");
      expect_same_checkpoint("straight", "run", steps);
      EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
      remove("run");
    }
    remove("straight");
  }
}

// What was due after the step that a run was stopped at is done all the same, and every line of the
// record is that of a run that nothing stopped.
TEST_F(Resume, AStopLosesNothing) {
  put_text("text.txt", 600);
  const std::string settings = kText + " --steps 24 --keep-last 0 --eval-every 1 --sample-every 1";
  done(settings + " --out straight");
  for (const int64_t wait :
       kSanitized ? std::vector<int64_t>{1200} : std::vector<int64_t>{1, 1200, 2400}) {
    Child child(path(""), words_of(settings + " --out run"));
    wait_for([&] { return size_of_file("run/metrics.jsonl") >= wait; });
    child.signal(SIGTERM);
    EXPECT_EQ(child.wait().code, 75);
    const std::string checkpoint = names_in("run/checkpoints").back();
    done("train --resume run");
    EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"))
        << "stopped at " << checkpoint;
    ASSERT_EQ(names_in("straight/samples"), names_in("run/samples")) << "stopped at " << checkpoint;
    for (const std::string& name : names_in("run/samples"))
      EXPECT_EQ(bytes("straight/samples/" + name), bytes("run/samples/" + name)) << name;
    expect_same_checkpoint("straight", "run", 24);
    remove("run");
  }
}

// A kill between the last checkpoint and the look at the validation split that follows it.
TEST_F(Resume, TheFinalEvaluationIsMadeUpFor) {
  done(kDigits + " --steps 4 --out straight");
  copy("straight", "run");
  Words lines = lines_of(bytes("run/metrics.jsonl"));
  ASSERT_NE(lines.back().find("val_loss"), std::string::npos);
  lines.pop_back();
  put("run/metrics.jsonl", lines.back() + "\n");
  remove("run/samples/step-00000004.png");
  done("train --resume run");
  EXPECT_EQ(repeatable_metrics("straight").back(), repeatable_metrics("run").back());
  EXPECT_EQ(bytes("straight/samples/step-00000004.png"), bytes("run/samples/step-00000004.png"));
  const std::string record = bytes("run/metrics.jsonl");
  done("train --resume run");
  EXPECT_EQ(bytes("run/metrics.jsonl"), record) << "once";
}

TEST_F(Resume, ATextOfOtherTokensIsRefused) {
  put_text("text.txt", 2000);
  done(kText + " --steps 2 --out run");
  std::string text = bytes("text.txt");
  std::replace(text.begin(), text.end(), 'd', 'x');  // as many tokens, other ones
  put("text.txt", text);
  refused(3, "train --resume run --steps 4",
          {"model.safetensors", "character 'd' (U+0064) is missing",
           "continue with the text of the run"});
  std::replace(text.begin(), text.end(), 'x', 'a');
  put("text.txt", text);
  refused(3, "train --resume run --steps 4",
          {"7 tokens", "6", "character 'd' (U+0064) is missing"});
  put_text("text.txt", 2000);
  done("train --resume run --steps 4");
}

TEST_F(Resume, AfterAKillIsBitExact) {
  const std::string settings = kCopy + " --steps 300 --save-every 25 --keep-last 0";
  done(settings + " --out straight");
  Child child(path(""), words_of(settings + " --out run"));
  wait_for([&] { return exists("run/checkpoints/step-00000050"); });
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait().code, 128 + SIGKILL);
  ASSERT_FALSE(exists("run/checkpoints/step-00000300"));
  // A draft of the next checkpoint may be left; it is never taken for one.
  fs::create_directories(path("run/checkpoints/.tmp-step-00000300"));
  put("run/checkpoints/.tmp-step-00000300/model.safetensors", "half");
  done("train --resume run");
  expect_same_checkpoint("straight", "run", 300);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
  for (const std::string& name : names_in("run/checkpoints"))
    EXPECT_EQ(name.rfind("step-", 0), 0u) << name;
}

TEST_F(Resume, FromTheCheckpointBeforeADamagedOneIsBitExact) {
  done(kCopy + " --steps 12 --save-every 4 --keep-last 0 --out straight");
  copy("straight", "run");
  remove("run/checkpoints/step-00000012");
  const std::string damaged = "run/checkpoints/step-00000008/optimizer.safetensors";
  put(damaged, bytes(damaged).substr(1) + "x");
  const Outcome outcome = done("train --resume run");
  EXPECT_NE(outcome.err.find(damaged), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("using the checkpoint before it"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("from step 4"), std::string::npos) << outcome.err;
  for (const int step : {8, 12}) expect_same_checkpoint("straight", "run", step);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
}

// A kill before the first save costs what was done, not the run.
TEST_F(Resume, ARunWithoutCheckpointsStartsOver) {
  done(kCopy + " --steps 12 --out straight");
  copy("straight", "run");
  remove("run/checkpoints");
  const Outcome outcome = done("train --resume run");
  EXPECT_NE(outcome.err.find("the run starts over"), std::string::npos) << outcome.err;
  expect_same_checkpoint("straight", "run", 12);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
}

// What is saved after a bad newer one was passed over is what the next start takes.
TEST_F(Resume, ADamagedNewerOneDoesNotEvictNewSaves) {
  done(kCopy + " --steps 20 --save-every 10 --keep-last 1 --keep-every 10 --out run");
  put("run/checkpoints/step-00000020/state.json", "{}");
  put("run/.tmp-1-2", "left by a kill");
  done("train --resume run --steps 13 --save-every 1 --keep-every 0");
  EXPECT_EQ(names_in("run/checkpoints"), (Words{"bad-step-00000020", "step-00000013"}));
  EXPECT_FALSE(exists("run/.tmp-1-2"));
  const Outcome again = done("train --resume run --steps 14");
  EXPECT_NE(again.err.find("from step 13"), std::string::npos) << again.err;
}

TEST_F(Resume, AClosedPipeEndsNothing) {
  Child child(path(""), words_of(kCopy + " --steps 100 --json --out run"), 0, "/dev/full");
  EXPECT_EQ(child.wait().code, 6) << "said at the end";
  EXPECT_TRUE(exists("run/checkpoints/step-00000100"));
  const std::string program = LINEA_PROGRAM, folder = path("");
  const std::string command =
      "cd '" + folder + "' && { '" + program + "' " + kCopy +
      " --steps 50 --eval-every 10 --out piped 2>&1; echo $? > code; } | true";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(bytes("code"), "0\n");
  EXPECT_TRUE(exists("piped/checkpoints/step-00000050"));
}

TEST_F(Resume, NamesChangedSettings) {
  done(kCopy + " --steps 2 --out run");
  const Outcome outcome = done("train --resume run --steps 3 --lr 0.5 --save-every 1");
  EXPECT_NE(outcome.err.find(
                "the run continues with other settings: steps was 2, is 3; lr was 0.001, is 0.5"),
            std::string::npos)
      << outcome.err;
}

TEST_F(Resume, AStopDuringSamplingIsHonored) {
  const std::string size =
      kSanitized ? "--size 14 --layers 2" : "--size 20 --layers 3";  // slow enough, either way
  const std::string settings = "train --task digits --examples 200 " + size +
                               " --levels 4 --dim 64 --heads 2 --batch 1 --steps 2";
  Child child(path(""), words_of(settings + " --save-every 1 --sample-every 1 --out run"));
  wait_for([&] {
    return exists("run/checkpoints/step-00000001");
  });  // sampling comes next, for a second or so
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().code, 75);
  EXPECT_EQ(names_in("run/samples").size(), 0u);
  done("train --resume run");
  done(settings + " --save-every 1 --sample-every 1 --out straight");
  for (const std::string& name : names_in("straight/samples"))
    EXPECT_EQ(bytes("straight/samples/" + name), bytes("run/samples/" + name)) << name;
}

TEST_F(Resume, AnotherNumberOfThreadsKeepsTheBits) {
  done(kCopy + " --steps 6 --threads 1 --out straight");
  done(kCopy + " --steps 3 --threads 1 --out run");
  const Outcome resumed = done("train --resume run --steps 6 --threads 3");
  EXPECT_EQ(resumed.err.find("not with the same bits"), std::string::npos) << resumed.err;
  const std::string moments = "/checkpoints/step-00000006/optimizer.safetensors";
  EXPECT_EQ(bytes("straight" + moments), bytes("run" + moments));  // the models record the setting
}

TEST_F(Resume, ARunIsLockedByOneProcess) {
  Child child(path(""), words_of(kCopy + " --steps 1000000 --save-every 1 --out run"));
  wait_for([&] { return exists("run/checkpoints/step-00000002"); });
  fs::create_directories(path("elsewhere"));
  const Outcome second = Child(path("elsewhere"), {"train", "--resume", "../run"}).wait();
  check_refusal(second, 2, "a second program", {"another program is training into ../run"});
  child.signal(SIGKILL);
  child.wait();
  done("train --resume run --steps 1 --save-every 0");  // its lock went with it
}

TEST_F(Resume, AfterTheTimeLimitIsBitExact) {
  const std::string settings = kCopy + " --steps 100000000";
  const Outcome stopped = linea(words_of(settings + " --max-time 1s --out run"));
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_NE(stopped.err.find("(--max-time 1s)"), std::string::npos) << stopped.err;
  const Outcome again =
      linea("train --resume run --max-time 1d --steps " +
            std::to_string(std::stoi(names_in("run/checkpoints").back().substr(5)) + 3));
  EXPECT_EQ(again.code, 0) << again.err;
  refused(2, kCopy + " --max-time soon --out other", {"--max-time", "'soon'", "3h50m"});
}

TEST_F(Resume, KeepsTheBestValidationLoss) {
  put_text("text.txt", 600);
  // Steps this wide make the loss worse after its best.
  done(kText +
       " --steps 40 --eval-every 2 --keep-last 1 --keep-every 16 --lr 0.5 --min-lr 0.5 --warmup 0 "
       "--out run");
  int64_t best = -1;
  double lowest = 1e30;
  for (const nlohmann::json& record : metrics("run"))
    if (record.contains("val_loss") && record["val_loss"].get<double>() <= lowest) {
      lowest = record["val_loss"].get<double>();
      best = record["step"].get<int64_t>();
    }
  ASSERT_LT(best, 40);
  EXPECT_TRUE(exists(fmt::format("run/checkpoints/step-{:08}", best)));
  EXPECT_TRUE(exists("run/checkpoints/step-00000040"));
}

TEST_F(Resume, TakesNewSettingsAsFlags) {
  done(kCopy + " --steps 4 --out run");
  const Outcome nothing = done("train --resume run");
  EXPECT_NE(nothing.err.find("0 steps"), std::string::npos) << nothing.err;
  done("train --resume run --steps 8 --lr 0.002");
  EXPECT_TRUE(exists("run/checkpoints/step-00000008"));
  EXPECT_NE(bytes("run/config.toml").find("\nlr = 0.002\n"), std::string::npos);
  EXPECT_NE(bytes("run/config.toml").find("\nsteps = 8\n"), std::string::npos);
}

// A kill between the last save and the removal of what it makes superfluous.
TEST_F(Resume, RemovesLeftoversOfAKill) {
  done(kCopy + " --steps 12 --save-every 2 --eval-every 6 --keep-last 2 --out run");
  const Words kept = names_in("run/checkpoints");
  ASSERT_FALSE(exists("run/checkpoints/step-00000008"));
  copy("run/checkpoints/step-00000010", "run/checkpoints/step-00000008");
  done("train --resume run");
  EXPECT_EQ(names_in("run/checkpoints"), kept);
}

TEST_F(Resume, RefusesFoldersThatAreNoRun) {
  fs::create_directories(path("empty"));
  refused(3, "train --resume nowhere", {"nowhere", "no such file"});
  refused(3, "train --resume empty", {"empty/config.toml"});
  done(kCopy + " --steps 4 --out run");
  refused(2, "train --resume run --out other", {"--resume", "--out"});
  const std::string folder = "run/checkpoints/step-00000004/";
  const std::string moments = bytes(folder + "optimizer.safetensors"),
                    state = bytes(folder + "state.json");
  put(folder + "optimizer.safetensors", moments.substr(0, moments.size() / 2));
  refused(3, "train --resume run", {"optimizer.safetensors"});
  put(folder + "optimizer.safetensors", moments);
  for (const std::string damaged : {"", "{", "{\"step\": 4}"}) {
    put(folder + "state.json", damaged);
    refused(3, "train --resume run", {"state.json", "in its manifest"});
  }
  put(folder + "state.json", state);
  done("train --resume run");
  fs::remove_all(path("run/checkpoints"));
  refused(3, "eval run", {"run", "no checkpoint"});
}

}  // namespace
}  // namespace linea

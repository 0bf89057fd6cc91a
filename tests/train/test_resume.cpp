// Going on with a run: whatever ended it, the end is the one of a run that nothing disturbed, bit for bit.
#include "tests/train/program.h"

namespace linea {
namespace {

class Resume : public ProgramTest {
 protected:
  void wait_for(const std::function<bool()>& holds) const {
    for (int i = 0; i < 10000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(holds()) << "waited in vain";
  }
  int64_t size_of_file(const std::string& name) const {
    std::error_code error;
    const auto size = fs::file_size(path(name), error);
    return error ? 0 : static_cast<int64_t>(size);
  }
};

TEST_F(Resume, FromAnEarlierCheckpointGoesTheSameWay) {
  put_text("text.txt", 2000);
  const std::string settings = " --dropout 0.1 --accumulate 2 --steps 12 --save-every 4 --eval-every 6 --keep-last 0";
  for (const std::string& task :
       {kDigits + " --attention linear", kDigits + " --attention softmax --optimizer radam",
        kText + " --feature square --optimizer adam", kCopy + " --attention linear --weight-decay 0.1",
        kText + " --attention performer --features 5 --redraw 3", kText + " --attention vq --codes 6",
        kText + " --attention soft-vq --codes 6 --anneal 0.1", kText + " --rule gated", kText + " --rule delta",
        "train --task retrieval --associations 6 --layers 1 --heads 1 --dim 8 --batch 2" + std::string()}) {
    done(task + settings + " --out straight");
    copy("straight", "resumed");
    remove("resumed/checkpoints/step-00000012");
    std::ofstream(path("resumed/metrics.jsonl"), std::ios::app) << "{\"step\":12,\"lo";  // a kill in the middle
    const Outcome outcome = done("train --resume resumed");
    EXPECT_NE(outcome.err.find("from step 8"), std::string::npos) << outcome.err;
    expect_same_checkpoint("straight", "resumed", 12);
    EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("resumed"));
    EXPECT_EQ(bytes("straight/config.toml"), bytes("resumed/config.toml"));
    remove("straight");
    remove("resumed");
  }
}

TEST_F(Resume, AfterASignalGoesTheSameWay) {
  const std::string settings = " --dropout 0.1 --accumulate 2 --steps 600 --keep-last 0";
  for (const std::string& task : {kCopy + " --attention linear", kCopy + " --attention softmax"}) {
    done(task + settings + " --out straight");
    for (const int signal : {SIGINT, SIGTERM}) {
      Child child(path(""), words_of(task + settings + " --out run"));
      wait_for([&] { return size_of_file("run/metrics.jsonl") > 0; });
      child.signal(signal);
      const Outcome stopped = child.wait();
      EXPECT_EQ(stopped.code, 75) << stopped.err;
      EXPECT_NE(lines_of(stopped.err).back().find("linea train --resume run"), std::string::npos) << stopped.err;
      ASSERT_EQ(names_in("run/checkpoints").size(), 1u);
      const std::string checkpoint = names_in("run/checkpoints")[0];
      EXPECT_LT(checkpoint, "step-00000600");
      EXPECT_NE(stopped.err.find(fmt::format("stopped after step {}", std::stoi(checkpoint.substr(5)))), std::string::npos)
          << stopped.err << checkpoint;
      EXPECT_EQ(names_in("run/checkpoints/" + checkpoint).size(), 3u);
      EXPECT_EQ(linea("eval run --json").code, 0);
      done("train --resume run");
      expect_same_checkpoint("straight", "run", 600);
      int last = 0;
      for (const nlohmann::json& record : repeatable_metrics("run")) {
        if (record.contains("val_loss")) continue;
        EXPECT_GT(record["step"], last);
        last = record["step"];
      }
      EXPECT_EQ(last, 600);
      EXPECT_EQ(repeatable_metrics("straight").back(), repeatable_metrics("run").back());
      remove("run");
    }
    remove("straight");
  }
}

TEST_F(Resume, AfterAKillGoesTheSameWay) {
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
  for (const std::string& name : names_in("run/checkpoints")) EXPECT_EQ(name.rfind("step-", 0), 0u) << name;
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

TEST_F(Resume, RefusesWhatIsNoRun) {
  fs::create_directories(path("empty"));
  refused(3, "train --resume nowhere", {"nowhere", "no such file"});
  refused(3, "train --resume empty", {"empty/config.toml"});
  done(kCopy + " --steps 4 --out run");
  refused(2, "train --resume run --out other", {"--resume", "--out"});
  refused(3, "train --resume run --dim 32", {"model.safetensors", "[11,16]", "[11,32]"});
  refused(3, "train --resume run --attention softmax --layers 2", {"model.safetensors", "blocks.1"});
  const std::string folder = "run/checkpoints/step-00000004/";
  const std::string moments = bytes(folder + "optimizer.safetensors"), state = bytes(folder + "state.json");
  put(folder + "optimizer.safetensors", moments.substr(0, moments.size() / 2));
  refused(3, "train --resume run", {"optimizer.safetensors"});
  put(folder + "optimizer.safetensors", moments);
  for (const std::string damaged : {"", "{", "[]", "{\"step\": 4}", "{\"step\": \"4\", \"updates\": 4}"}) {
    put(folder + "state.json", damaged);
    refused(3, "train --resume run", {"state.json"});
  }
  put(folder + "state.json", state);
  done("train --resume run");
  fs::remove_all(path("run/checkpoints"));
  refused(3, "train --resume run", {"run", "no checkpoint"});
}

}  // namespace
}  // namespace linea

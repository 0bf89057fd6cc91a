// --ema: the averaged weights of a run, in its checkpoints and in what reads them.
#include "data/safetensors.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

class Ema : public ProgramTest {
 protected:
  static std::string checkpoint(const std::string& run, int64_t step) {
    return fmt::format("{}/checkpoints/step-{:08}", run, step);
  }
  double loss(const std::string& arguments) const {
    return json_lines(done("eval --json " + arguments).out).at(0).at("loss").get<double>();
  }
  void expect_same_average(const std::string& one, const std::string& other, int step) const {
    expect_same_checkpoint(one, other, step);
    EXPECT_TRUE(bytes(checkpoint(one, step) + "/ema.safetensors") ==
                bytes(checkpoint(other, step) + "/ema.safetensors"))
        << one << " and " << other;
  }
};

TEST_F(Ema, IsAModelOfItsOwnInEachCheckpoint) {
  put_text("text.txt", 3000);
  done(kText +
       " --steps 12 --eval-every 6 --save-every 6 --lr 0.01 --warmup 0 --ema 0.9 --out run");
  const std::string folder = checkpoint("run", 12);
  EXPECT_EQ(names_in(folder), (Words{"ema.safetensors", "manifest.json", "model.safetensors",
                                     "optimizer.safetensors", "state.json"}));
  const SafetensorsFile last = SafetensorsFile::open(path(folder + "/model.safetensors")),
                        average = SafetensorsFile::open(path(folder + "/ema.safetensors"));
  EXPECT_EQ(last.metadata(), average.metadata());
  ASSERT_EQ(last.entries().size(), average.entries().size());
  for (const SafetensorsEntry& entry : last.entries()) {
    EXPECT_EQ(average.entry(entry.name).shape, entry.shape);
    EXPECT_NE(average.read(entry.name).to_doubles(), last.read(entry.name).to_doubles())
        << entry.name;
  }
  EXPECT_EQ(parse_json(bytes(folder + "/state.json"))["averaged"], 12);

  // What training recorded is what each way of reading the average gives.
  const nlohmann::json record = metrics("run").back();
  EXPECT_EQ(loss("run --weights ema"), record["val_loss_ema"]);
  EXPECT_EQ(loss(folder + " --weights ema"), record["val_loss_ema"]);
  EXPECT_EQ(loss(folder + "/ema.safetensors"), record["val_loss_ema"]);
  EXPECT_EQ(loss("run"), record["val_loss"]);
  EXPECT_NE(record["val_loss"], record["val_loss_ema"]);
  EXPECT_NE(done("info run").out.find("of the averaged weights"), std::string::npos);
  done("sample run --weights ema --tokens 5");
  done("judge run --weights ema --count 1 --tokens 20");

  done("train --init-from run --steps 1 --out next");  // from the last weights
  EXPECT_EQ(metrics("next").front()["val_loss"], record["val_loss"]);
  EXPECT_EQ(metrics("next").front()["val_loss_ema"], record["val_loss"]);

  std::string damaged = bytes(folder + "/ema.safetensors");
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  put(folder + "/ema.safetensors", damaged);
  refused(3, "eval " + folder, {"ema.safetensors", "SHA-256"});
}

TEST_F(Ema, ContinuesBitForBit) {
  put_text("text.txt", 2000);
  const std::string settings = kText + " --lr 0.01 --warmup 0 --decay-steps 9 --ema 0.8";
  for (const std::string& more :
       {std::string(" --accumulate 2 --dropout 0.1"), std::string(" --dtype bf16"),
        std::string(" --reversible"), std::string(" --attention performer --features 6 --redraw 2"),
        std::string(" --attention vq --codes 4"), std::string(" --optimizer muon")}) {
    if (kSanitized && more.find("--attention") != std::string::npos) continue;
    const std::string line = settings + more;
    done(line + " --steps 9 --out straight");
    done(line + " --steps 4 --out resumed --threads 1");
    done("train --resume resumed --steps 9 --threads 0");
    expect_same_average("straight", "resumed", 9);
    fs::remove_all(path("straight"));
    fs::remove_all(path("resumed"));
  }
}

TEST_F(Ema, StartsFromTheWeightsWhereItIsTurnedOn) {
  const std::string line = kCopy + " --decay-steps 8 --lr 0.01 --warmup 0";
  done(line + " --steps 4 --out one");
  copy("one", "other");
  for (const char* run : {"one", "other"}) {
    const Outcome outcome = done(fmt::format("train --resume {} --steps 8 --ema 0.9", run));
    EXPECT_NE(outcome.err.find("starts from the weights of step 4"), std::string::npos)
        << outcome.err;
  }
  expect_same_average("one", "other", 8);
  EXPECT_EQ(parse_json(bytes(checkpoint("one", 8) + "/state.json"))["averaged"], 4);
  done("train --resume one --steps 10 --ema 0");
  EXPECT_FALSE(exists(checkpoint("one", 10) + "/ema.safetensors"));
  refused(2, "eval one --weights ema", {"no averaged weights", "--ema"});
}

// Training itself is as without it.
TEST_F(Ema, ChangesNoOtherNumber) {
  const std::string line = kCopy + " --steps 6 --lr 0.01 --warmup 0";
  done(line + " --out plain");
  done(line + " --ema 0.9 --out averaged");
  const SafetensorsFile plain = SafetensorsFile::open(
                            path(checkpoint("plain", 6) + "/model.safetensors")),
                        averaged = SafetensorsFile::open(
                            path(checkpoint("averaged", 6) + "/model.safetensors"));
  for (const SafetensorsEntry& entry : plain.entries())
    EXPECT_EQ(averaged.read(entry.name).to_doubles(), plain.read(entry.name).to_doubles());
}

TEST_F(Ema, TheBestIsThatOfTheWeights) {
  done(kDigits +
       " --steps 6 --save-every 2 --keep-last 0 --lr 0.02 --warmup 0 --ema 0.9 --out run");
  put("run/metrics.jsonl",
      "{\"step\":2,\"val_loss\":1,\"val_loss_ema\":3,\"val_tokens\":9}\n"
      "{\"step\":4,\"val_loss\":2,\"val_loss_ema\":2,\"val_tokens\":9}\n"
      "{\"step\":6,\"val_loss\":3,\"val_loss_ema\":2.5,\"val_tokens\":9}\n");
  const auto sample = [&](const std::string& arguments) {
    done("sample " + arguments + " --count 20 --out x.png");
    return bytes("x.png");
  };
  EXPECT_EQ(sample("run --best --weights ema"), sample(checkpoint("run", 4) + " --weights ema"));
  EXPECT_EQ(sample("run --best"), sample(checkpoint("run", 2)));
  EXPECT_NE(sample("run --best --weights ema"), sample(checkpoint("run", 4)));
  const nlohmann::json info = json_lines(done("info --json run").out).at(0);
  EXPECT_EQ(info["best"]["step"], 2);
  EXPECT_EQ(info["best_ema"]["step"], 4);
  refused(2, "eval " + checkpoint("run", 4) + "/model.safetensors --weights ema",
          {"is one file", "--weights ema"});
  refused(2, "eval run --weights mean", {"--weights is 'mean'", "last or ema"});
  put("run/metrics.jsonl", "{\"step\":4,\"val_loss\":2,\"val_tokens\":9}\n");
  refused(2, "sample run --best --weights ema", {"--best", "--ema"});
}

TEST_F(Ema, ItsMemoryIsCounted) {
  const auto bytes_of = [&](const std::string& more) {
    return json_lines(done(kCopy + " --dry-run --json" + more).out).at(0);
  };
  const nlohmann::json plain = bytes_of(""), averaged = bytes_of(" --ema 0.9");
  const int64_t weights = plain["bytes"]["parameters"];
  EXPECT_EQ(averaged["bytes"]["optimizer"], plain["bytes"]["optimizer"].get<int64_t>() + weights);
  EXPECT_EQ(averaged["checkpoint_bytes"], plain["checkpoint_bytes"].get<int64_t>() + weights);
}

}  // namespace
}  // namespace linea

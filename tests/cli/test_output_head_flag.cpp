// --output-head and the flags of sampling, as the program has them.
#include "tests/cli/program.h"

namespace linea {
namespace {

class OutputHeadFlag : public ProgramTest {
 protected:
  double last_bits(const std::string& run) const {
    return metrics(run).back()[kSanitized ? "val_bits" : "whole_val_bits"].get<double>();
  }
};

TEST_F(OutputHeadFlag, LogisticsTrainEvaluateAndSample) {
  const std::string train =
      "train --task digits --size 12 --examples 1000 --levels 16 --output-head logistics --lr 0.01 "
      "--warmup 0" +
      kSmall;
  done(train + " --steps 2 --out short");
  const int steps = kSanitized ? 40 : 150;
  done(fmt::format("{} --steps {} --out run", train, steps));
  EXPECT_LT(last_bits("short"), 5.5);
  EXPECT_LT(last_bits("run"), kSanitized ? 3.5 : 2.2) << "16 levels that are all alike cost 4 bits";
  EXPECT_NE(bytes("run/config.toml").find("head = \"logistics\""), std::string::npos);
  const std::string file = fmt::format("run/checkpoints/step-{:08}/model.safetensors", steps);
  const std::string eval = done("eval --json run").out;
  EXPECT_EQ(parse_json(eval)["bits"].get<double>(), last_bits("run"));
  EXPECT_EQ(done("eval --json " + file).out, eval);
  done("sample run --count 4 --out a.png --seed 3");
  done("sample " + file + " --count 4 --out b.png --seed 3");
  EXPECT_EQ(bytes("a.png"), bytes("b.png"));
  done(train + " --steps 4 --save-every 2 --out whole");
  done("train --resume whole --steps 6");
}

TEST_F(OutputHeadFlag, IsRefusedWhereItDoesNotApply) {
  refused(2, kCopy + " --output-head logistics --steps 1 --out run",
          {"--output-head logistics", "copy", "images"});
  refused(2, kDigits + " --output-head logistics --tie --steps 1 --out run",
          {"--tie", "--output-head logistics"}, true);
  refused(2, kDigits + " --output-head gauss --steps 1 --out run",
          {"--output-head is 'gauss'", "categorical, logistics"}, true);
  EXPECT_FALSE(exists("run"));
  refused(2, "bench train --output-head logistics --steps 1 --warmup 0",
          {"--output-head logistics", "random tokens"}, true);
}

TEST_F(OutputHeadFlag, WeightsOfAnotherHeadAreRefused) {
  done(kDigits + " --steps 1 --out run");
  refused(2, kDigits + " --output-head logistics --steps 1 --out new --init-from run",
          {"--output-head was categorical in run"}, true);
}

TEST_F(OutputHeadFlag, TopKAndTopPRestrictSampling) {
  done(kDigits + " --steps 30 --out images");
  put_text("text.txt", 2000);
  done(kText + " --steps 30 --out text");
  const auto sampled = [&](const std::string& more) {
    done("sample images --count 3 --out x.png " + more);
    return bytes("x.png") + done("sample text --tokens 60 " + more).out;
  };
  const std::string plain = sampled("--seed 3"), greedy = sampled("--greedy");
  EXPECT_EQ(sampled("--seed 3 --top-k 0 --top-p 1"), plain);
  EXPECT_EQ(sampled("--seed 3 --top-k 1"), greedy);
  EXPECT_EQ(sampled("--seed 4 --top-p 0.0001"), greedy);
  const std::string some = sampled("--seed 3 --top-k 2 --top-p 0.9");
  EXPECT_NE(some, plain);
  EXPECT_NE(some, greedy);
  EXPECT_EQ(some, sampled("--seed 3 --top-k 2 --top-p 0.9 --threads 1"));
  const std::string help = done("sample --help").out;
  for (const char* flag : {"--top-k", "--top-p", "--temperature", "--greedy", "--seed",
                           "--complete", "--keep-rows", "--nll-map"})
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
}

}  // namespace
}  // namespace linea

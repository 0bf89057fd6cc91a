// Tasks with one answer from the command line.
#include "tests/cli/program.h"

namespace linea {
namespace {

const std::string kListops =
    "train --task listops --listops-depth 4 --listops-args 4 --listops-min 6 --listops-max 40 "
    "--layers 1 --heads 2 --dim 16 --ffn 32 --batch 8 --steps 6 --warmup 0 --threads 1";

class OneAnswerProgram : public ProgramTest {};

TEST_F(OneAnswerProgram, TrainsAndEvaluates) {
  const Outcome trained = done(kListops + " --attention softmax --out run");
  EXPECT_NE((trained.out + trained.err).find("linea eval run"), std::string::npos);
  const auto last = json_lines(bytes("run/metrics.jsonl")).back();
  EXPECT_GT(last.at("val_majority"), 0.1);
  const Outcome evaluated = done("eval run --split test --json");
  const auto score = json_lines(evaluated.out).back();
  EXPECT_EQ(score.at("tokens"), 2000);
  EXPECT_GT(score.at("majority"), 0.1);
  EXPECT_LT(score.at("majority"), 0.5);
  EXPECT_NE(done("eval run").out.find("majority 0."), std::string::npos);
  done("train --resume run --steps 8");
}

TEST_F(OneAnswerProgram, RefusesWhatNeedsPredictedTokens) {
  done(kListops + " --out run");
  for (const char* command : {"sample run", "sample run --complete a.png --keep-rows 3",
                              "sample run --nll-map", "judge run"})
    refused(2, command, {"run", "listops", "linea eval"});
  refused(2, kListops + " --tie --out other", {"--tie", "listops"});
  refused(2, kListops + " --class-token --out other", {"--class-token"});
  refused(2, kListops + " --judge-samples 5 --out other", {"--judge-samples", "listops"});
  refused(2, kListops + " --mask all --out other", {"--mask", "auto", "causal"});
}

// An attention without a causal form reads both ways, or not at all.
TEST_F(OneAnswerProgram, TakesAttentionsWithoutCausalForm) {
  const std::string star = " --attention star";
  done(kListops + star + " --out run");
  done("eval run");
  refused(2, kListops + star + " --mask causal --out other", {"star", "no causal form"});
  refused(2, "train --task copy --length 16 --heads 2 --dim 16 --out other" + star,
          {"star", "no causal form"});
  refused(2, kListops + " --attention routing --assign top --mask causal --out other",
          {"routing has no causal form", "nearest a centroid"});
}

TEST_F(OneAnswerProgram, NamesTheClassOfAnImage) {
  const std::string digits =
      "train --task digits --predict class --size 12 --levels 4 --examples 400 --layers 1 --heads "
      "2 "
      "--dim 32 --ffn 64 --steps 4 --threads 1 --attention axial";
  done(digits + " --out run");
  const auto score = json_lines(done("eval run --split test --json").out).back();
  EXPECT_EQ(score.at("majority"), 0.1);
  refused(2, "sample run", {"digits", "linea eval"});
  refused(2, "sample run --nll-map", {"digits", "linea eval"});
  refused(2, "judge run", {"digits", "linea eval"});
  refused(2, digits + " --class-token --out other", {"--class-token", "--predict class"});
  refused(2, digits + " --output-head logistics --out other", {"--output-head logistics"});
  done(digits + " --init-from run --out more");
  refused(2, "train --task digits --init-from run --predict pixels --out other",
          {"--predict", "class"});
}

}  // namespace
}  // namespace linea

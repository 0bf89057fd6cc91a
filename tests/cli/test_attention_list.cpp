// --attention with several attentions: settings, files, errors.
#include "tests/cli/program.h"

namespace linea {
namespace {

class AttentionListFlag : public ProgramTest {};

const std::string kFour =
    "train --task copy --length 16 --layers 4 --heads 2 --dim 16 --ffn 32 --batch 2 --steps 2 ";

TEST_F(AttentionListFlag, ConfigTomlHoldsTheListAndWhatItShares) {
  done(kFour +
       "--attention linear:rule=gated/linear:rule=gated/vq --codes 5 --feature relu --out run");
  const std::string config = bytes("run/config.toml");
  for (const char* line : {"attention = \"linear:rule=gated/linear:rule=gated/vq\"", "codes = 5",
                           "feature = \"relu\"", "memory = \"short\""})
    EXPECT_NE(config.find(std::string("\n") + line + "\n"), std::string::npos) << line << config;
  EXPECT_EQ(config.find("\nrule ="), std::string::npos) << config;
  done("train --config run/config.toml --out again");
  EXPECT_EQ(config, bytes("again/config.toml"));
  expect_same_checkpoint("run", "again", 2);
  const std::string label = "2 x linear --feature relu --rule gated / vq --codes 5";
  EXPECT_EQ(parse_json(done("info run --json").out).at("attention"), label);
  for (const char* line :
       {"layers 0-1, 3: linear --feature relu --rule gated", "layer 2: vq --codes 5"})
    for (const std::string& text : {done("info run").out, done("train --resume run").err})
      EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_NE(done("runs .").out.find("vq"), std::string::npos);
  done("eval run");
}

TEST_F(AttentionListFlag, ARunReadsWhatItWrote) {
  done(kFour + "--attention linear:feature=relu/performer --features 5 --out run");
  done("eval run");
  done("train --resume run --steps 3 --lr 0.002");
  done("train --config run/config.toml --feature trig --out other");
  EXPECT_NE(bytes("other/config.toml").find("\nfeature = \"trig\"\n"), std::string::npos);
}

// One model has many texts: a run continues by each of them.
TEST_F(AttentionListFlag, ARunContinuesByOtherTextsOfItsAttentions) {
  done(kFour + "--attention linear --rule gated --out run");
  done("train --resume run --steps 3 --attention linear:rule=gated");
  const std::string listed =
      done("train --resume run --steps 4 --attention linear:rule=gated/linear --rule gated").err;
  EXPECT_EQ(listed.find("layers 0"), std::string::npos) << listed;
  const Outcome resumed = done("train --resume run --steps 5 --attention linear --rule gated");
  EXPECT_EQ(resumed.err.find("attention was"), std::string::npos) << resumed.err;
  refused(2, "train --resume run --steps 6 --attention linear:rule=delta",
          {"--attention was linear in run", "cannot change"});
  refused(2, "train --resume run --steps 6 --attention linear:rule=gated/linear:rule=sum",
          {"--attention was linear in run", "cannot change"});
}

// A list that names what was chosen before keeps its settings.
TEST_F(AttentionListFlag, AListKeepsTheSettingsOfItsNames) {
  std::ofstream(path("gated.toml")) << "attention = \"linear\"\nrule = \"gated\"\n";
  done(kFour + "--config gated.toml --attention linear/softmax --out run");
  EXPECT_NE(bytes("run/config.toml").find("\nrule = \"gated\"\n"), std::string::npos);
  done("train --init-from run --attention linear/vq --codes 5 --rule sum --out other");
  EXPECT_NE(bytes("other/config.toml").find("\nrule = \"sum\"\n"), std::string::npos);
}

TEST_F(AttentionListFlag, RefusesWhatCannotBe) {
  const auto not_taken = [&](const std::string& flags,
                             std::initializer_list<std::string> fragments) {
    refused(2, kFour + flags + " --out none", fragments);
  };
  not_taken("--attention linear/linaer", {"--attention, item 2 of 2", "'linaer'"});
  not_taken("--attention linear//softmax", {"item 2 of 3"});
  not_taken("--attention a/b/c/d/e", {"item 1 of 5"});
  not_taken("--attention linear/softmax/linear/softmax/vq",
            {"--attention names 5", "--layers is 4"});
  not_taken("--attention linear/softmax --codes 4", {"--codes is a setting of attention"});
  not_taken("--attention linear/softmax --memory long", {"--memory long applies to no attention"});
  not_taken("--attention linear:rule=delta --rule gated", {"--rule is a setting of attention"});
  not_taken("--attention vq/linear --recompute", {"--recompute does not go with --attention vq"});
}

}  // namespace
}  // namespace linea

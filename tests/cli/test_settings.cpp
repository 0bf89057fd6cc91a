// Settings belong to mechanisms: flags, help, config.toml and --init-from follow from what the
// chosen ones declare.
#include "tests/cli/program.h"

namespace linea {
namespace {

class SettingsTest : public ProgramTest {
 protected:
  bool has_line(const std::string& run, const std::string& line) const {
    return ("\n" + bytes(run + "/config.toml")).find("\n" + line + "\n") != std::string::npos;
  }
  bool has_key(const std::string& run, const std::string& key) const {
    return bytes(run + "/config.toml").find("\n" + key + " = ") != std::string::npos;
  }
};

TEST_F(SettingsTest, SettingsOfOtherMechanismsAreRefused) {
  refused(2, kCopy + " --attention softmax --rule gated --out run",
          {"--rule", "linear", "softmax"});
  refused(2, kCopy + " --attention vq --features 8 --out run", {"--features", "performer", "vq"});
  refused(2, kCopy + " --size 14 --out run", {"--size", "digits, mnist, cifar10, images", "copy"});
  refused(2, kCopy + " --optimizer adam --weight-decay 1 --out run",
          {"--weight-decay", "adamw, radam", "adam"});
  refused(2, "bench attention --attention softmax,linear --codes 4", {"--codes", "soft-vq, vq"});
  refused(2, "bench train --attention softmax --features 8", {"--features", "performer"});
  refused(2, "bench sample --optimizer adam", {"'--optimizer'"});
  refused(2, kCopy + " --attention linear --window 8 --out run", {"--window", "softmax", "linear"});
  put("c.toml", "attention = 'softmax'\nrule = 'gated'\n");
  refused(2, kCopy + " --config c.toml --out run", {"c.toml:2", "'rule'", "linear", "softmax"});
  EXPECT_FALSE(exists("run"));
}

TEST_F(SettingsTest, AConfigHoldsWhatApplies) {
  const std::string once = kCopy + " --steps 1 --out ";
  done(once + "a --attention performer --features 8");
  for (const char* line : {"length = 16", "attention = \"performer\"", "feature = \"positive\"",
                           "features = 8", "redraw = 0", "weight_decay = 0"})
    EXPECT_TRUE(has_line("a", line)) << line << bytes("a/config.toml");
  for (const char* key : {"rule", "nu", "codes", "sigma", "size", "levels", "bytes", "data"})
    EXPECT_FALSE(has_key("a", key)) << key;
  done(once + "b --attention softmax --optimizer adam");
  for (const char* key : {"feature", "features", "weight_decay"})
    EXPECT_FALSE(has_key("b", key)) << key;
  done(once + "c --feature dpfp --nu 2");
  EXPECT_TRUE(has_line("c", "nu = 2"));
  // Read again, it is the same run.
  done("train --config c/config.toml --out d");
  EXPECT_EQ(bytes("d/config.toml"), bytes("c/config.toml"));
}

TEST_F(SettingsTest, AWindowIsASettingOfSoftmax) {
  refused(2, kCopy + " --attention softmax --window -1 --out run",
          {"--window", "-1", "at least 0"});
  EXPECT_FALSE(exists("run"));
  const std::string once = kCopy + " --attention softmax --steps 1 --out ";
  EXPECT_EQ(done(once + "none --window 0").out.find("window"), std::string::npos);
  done(once + "near --window 4");
  EXPECT_TRUE(has_line("near", "window = 4"));
  EXPECT_NE(done("info near").out.find("softmax --window 4"), std::string::npos);
  put_text("text.txt", 2000);
  done(kText + " --attention softmax --window 4 --steps 1 --out text");
  done("sample text --tokens 20");
}

TEST_F(SettingsTest, HelpShowsTheFlagsOfTheChosen) {
  const auto shows = [&](const std::string& line, std::initializer_list<const char*> present,
                         std::initializer_list<const char*> absent) {
    const std::string help = done(line).out;
    for (const char* flag : present) EXPECT_NE(help.find(flag), std::string::npos) << line << flag;
    for (const char* flag : absent) EXPECT_EQ(help.find(flag), std::string::npos) << line << flag;
  };
  shows("train --help",
        {"--features INT", "--codes INT", "--rule sum|gated|delta", "--size INT", "--length INT",
         "--weight-decay", "linear: elu|relu", "performer: positive|"},
        {});
  shows("train --attention performer --help",
        {"--features INT", "--feature positive|hyperbolic|trig|relu", "--size INT"},
        {"--codes", "--rule", "--sigma", "elu|relu"});
  shows("train --task copy --attention softmax --optimizer adam --help", {"--length INT", "--lr"},
        {"--features", "--feature", "--size", "--weight-decay", "--bytes"});
  shows("bench attention --attention vq,linear --help", {"--codes", "--rule"},
        {"--features", "--sigma"});
  shows("attend --attention=soft-vq --help", {"--codes", "--sigma"},
        {"--features INT", "--rule s"});
}

TEST_F(SettingsTest, AnotherAttentionStartsFromItsOwnDefaults) {
  put_text("text.txt", 2000);
  const std::string once = " --steps 1 --out ";
  done(kText + " --attention linear --feature relu --rule gated" + once + "linear");
  done("train --init-from linear --attention performer" + once + "performer");
  EXPECT_TRUE(has_line("performer", "feature = \"positive\""));
  EXPECT_FALSE(has_key("performer", "rule"));
  done("train --init-from linear" + once + "again");
  EXPECT_TRUE(has_line("again", "feature = \"relu\""));
  EXPECT_TRUE(has_line("again", "rule = \"gated\""));
  done("train --init-from linear --attention linear --rule sum" + once + "sum");
  EXPECT_TRUE(has_line("sum", "feature = \"relu\""));
  EXPECT_TRUE(has_line("sum", "rule = \"sum\""));
  refused(2, "train --init-from linear --attention softmax --rule gated --out refused", {"--rule"});
  // So does a preset of another attention.
  done("train --preset retrieval --attention softmax --heads 1 --dim 8 --eval-every 0" + once +
       "r");
  EXPECT_FALSE(has_key("r", "rule"));
}

// A TOML string escapes what could end it.
TEST_F(SettingsTest, NamesHoldAnyCharacter) {
  for (const std::string name :
       {"a#b.txt", "it's \"quoted\".txt", "back\\slash.txt", "two\nlines.txt"}) {
    put_text(name, 2000);
    done(words_of("train --task text --length 16 --steps 1 --out run" + kSmall) +
         Words{"--data", name});
    done("eval run");
    done("train --config run/config.toml --out again");
    EXPECT_EQ(bytes("again/config.toml"), bytes("run/config.toml")) << name;
    for (const char* run : {"run", "again"}) remove(run);
  }
}

// A later file overrides an earlier one, a flag any file in any position, and of a flag and its
// opposite the later one wins.
TEST_F(SettingsTest, TheLaterOfTwoWins) {
  put("one.toml", "batch = 3\nlr = 0.5\n");
  put("two.toml", "batch = 4\n");
  const auto expect = [&](const std::string& flags, const Words& lines) {
    if (exists("run")) remove("run");
    done("train --task copy --length 8 --layers 1 --heads 2 --dim 8 --ffn 8 --steps 1 --out run " +
         flags);
    for (const std::string& line : lines)
      EXPECT_NE(bytes("run/config.toml").find("\n" + line + "\n"), std::string::npos)
          << flags << ": " << line;
  };
  expect("--config one.toml --config two.toml", {"batch = 4", "lr = 0.5"});
  expect("--config two.toml --config one.toml", {"batch = 3", "lr = 0.5"});
  expect("--batch 5 --config one.toml", {"batch = 5", "lr = 0.5"});
  expect("--no-bias --bias", {"bias = true"});
  expect("--bias --no-bias", {"bias = false"});
  expect("--tie --no-tie --tie --no-bias --no-bias", {"tie = true", "bias = false"});
}

TEST_F(SettingsTest, ANoteSaysWhereNothingTellsTheOrder) {
  const auto notes = [&](const std::string& flags, const std::string& out) {
    return done(kCopy + " --steps 1 --positions none " + flags + " --out " + out).err;
  };
  EXPECT_NE(notes("", "sums").find("only the causal mask tells the order"), std::string::npos);
  EXPECT_EQ(notes("--attention gdn", "gdn").find("the order"), std::string::npos);
}

}  // namespace
}  // namespace linea

// --init-from: weights that one attention learned, given to another, or to the same.
#include "data/safetensors.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

class InitFrom : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    put_text("text.txt", 2000);
    done(kText + " --attention softmax --steps 30 --lr 1e-2 --warmup 0 --out softmax");
  }
  double first_loss(const std::string& run) const {
    return parse_json(lines_of(bytes(run + "/metrics.jsonl")).front()).at("val_loss").get<double>();
  }
  double loss_of(const std::string& run) const {
    return parse_json(done("eval " + run + " --json").out).at("loss").get<double>();
  }
  std::vector<double> tensor(const std::string& run, int64_t step, const std::string& name) const {
    return SafetensorsFile::open(
               path(fmt::format("{}/checkpoints/step-{:08}/model.safetensors", run, step)))
        .read(name)
        .to_doubles();
  }
  void expect_setting(const std::string& run, const std::string& line) const {
    const std::string config = bytes(run + "/config.toml");
    EXPECT_NE(config.find("\n" + line + "\n"), std::string::npos)
        << line << " is not in " << run << config;
  }
};

const std::string kStill = " --steps 1 --lr 1e-30 --min-lr 0";

TEST_F(InitFrom, TheSameAttentionContinues) {
  done("train --init-from softmax --steps 2 --out again");
  const double ended = loss_of("softmax");
  EXPECT_NEAR(first_loss("again"), ended, 1e-5);
  EXPECT_LT(ended, 3.0);  // it had learned something
}

// What is no parameter goes along: moving codes, directions that were redrawn, a temperature.
TEST_F(InitFrom, TheSameAttentionCopiesItsBuffers) {
  for (const std::string attention :
       {"vq --codes 6 --codebook ema", "vq --codes 6 --codebook gradient",
        "performer --features 5 --redraw 3", "soft-vq --codes 6 --anneal 0.01"}) {
    SCOPED_TRACE(attention);
    done(kText + " --attention " + attention + " --steps 30 --lr 1e-2 --warmup 0 --out source");
    done("train --init-from source --steps 2 --out again");
    EXPECT_NEAR(first_loss("again"), loss_of("source"), 1e-5);
    for (const char* run : {"source", "again"}) remove(run);
  }
}

// A codebook that learned by gradients has no sums of keys, which one that moves by their means
// needs.
TEST_F(InitFrom, ACodebookContinuesWithAnotherLearningRule) {
  done(
      kText +
      " --attention vq --codes 6 --codebook gradient --steps 30 --lr 1e-2 --warmup 0 --out source");
  done("train --init-from source --codebook ema" + kStill + " --out moving");
  EXPECT_NEAR(first_loss("moving"), loss_of("source"), 1e-5);
  const std::vector<double> before = tensor("source", 30, "blocks.0.attention.codebook"),
                            after = tensor("moving", 1, "blocks.0.attention.codebook");
  double largest = 0, moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    largest = std::max(largest, std::abs(before[i]));
    moved = std::max(moved, std::abs(after[i] - before[i]));
  }
  EXPECT_LT(moved, 0.2 * largest);
}

// Other sizes, or another projection of directions, are what the user asked for.
TEST_F(InitFrom, BuffersOfOtherSizesAreReset) {
  done(kText + " --attention performer --features 5 --steps 2 --out source");
  const std::string omega = "blocks.0.attention.omega";
  done("train --init-from source --features 7" + kStill + " --out wider");
  EXPECT_EQ(tensor("wider", 1, omega).size(), size_t{2 * 7 * 8});
  done("train --init-from source --seed 2" + kStill + " --out same");
  EXPECT_EQ(tensor("same", 1, omega), tensor("source", 2, omega));
  done("train --init-from source --projection iid" + kStill + " --out iid");
  EXPECT_NE(tensor("iid", 1, omega), tensor("source", 2, omega));
}

// --projection says how directions are drawn; a codebook has none.
TEST_F(InitFrom, AProjectionIsRefusedForACodebook) {
  done(kText + " --attention vq --codes 5 --steps 1 --out source");
  refused(2, "train --init-from source --projection iid --out again",
          {"--projection is a setting of attention performer, not of vq"});
  EXPECT_FALSE(exists("again"));
}

// What the gated rule forgets by and what the delta rule writes by have the same names and sizes.
TEST_F(InitFrom, AGateBelongsToItsRule) {
  done(kText + " --attention linear --rule gated --steps 3 --out source");
  const std::string bias = "blocks.0.gate.bias";
  done("train --init-from source" + kStill + " --out same");
  EXPECT_EQ(tensor("same", 1, bias), tensor("source", 3, bias));
  done("train --init-from source --rule delta" + kStill + " --out delta");
  for (const double x : tensor("delta", 1, bias)) EXPECT_NEAR(x, 0, 1e-6);
}

// Positive features estimate softmax: with many of them the loss before any step is near softmax's.
TEST_F(InitFrom, APerformerStartsNearSoftmax) {
  done("train --init-from softmax --attention performer --features 512 --steps 2 --out performer");
  EXPECT_NEAR(first_loss("performer"), loss_of("softmax"), 0.02);
}

// vq and soft-vq have no 1 / sqrt(D) of their own: q's rows of qkv are scaled by it, D = 8, and no
// others.
TEST_F(InitFrom, CodebooksScaleTheQueriesOnce) {
  const std::string qkv = "blocks.0.qkv.weight";
  for (const std::string attention : {"vq", "soft-vq"}) {
    done("train --init-from softmax --attention " + attention + " --codes 4" + kStill + " --out " +
         attention);
    const std::vector<double> before = tensor("softmax", 30, qkv),
                              after = tensor(attention, 1, qkv);
    ASSERT_EQ(before.size(), size_t{48 * 16});
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(after[i], before[i] * (i < 16 * 16 ? 1 / std::sqrt(8.0) : 1.0), 1e-6)
          << attention << " " << i;
    done("train --init-from " + attention + kStill + " --out again-" + attention);
    const std::vector<double> again = tensor("again-" + attention, 1, qkv);
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(again[i], after[i], 1e-6) << attention << " " << i;
  }
}

// Without a projection of keys that of q and v starts anew, and so does one of all three after it.
TEST_F(InitFrom, SharedKeysHaveAProjectionOfTheirOwn) {
  EXPECT_NE(done("train --init-from softmax --attention lsh" + kStill + " --out lsh")
                .err.find("new: blocks.*.qv.weight"),
            std::string::npos);
  EXPECT_EQ(tensor("lsh", 1, "blocks.0.qv.weight").size(), size_t{32 * 16});
  const std::string up = "blocks.0.up.weight";
  const std::vector<double> before = tensor("softmax", 30, up), after = tensor("lsh", 1, up);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-6);
  EXPECT_NE(done("train --init-from lsh --attention softmax" + kStill + " --out back")
                .err.find("new: blocks.*.qkv.weight"),
            std::string::npos);
}

// With several attentions each layer starts from what that layer was.
TEST_F(InitFrom, EachLayerIsScaledByWhatItWas) {
  done("train --init-from softmax --attention softmax --layers 3" + kStill + " --out three");
  done("train --init-from three --attention softmax/vq:codes=4" + kStill + " --out mixed");
  expect_setting("mixed", "attention = \"softmax/vq:codes=4\"");
  for (const int layer : {0, 1, 2}) {
    const std::string qkv = fmt::format("blocks.{}.qkv.weight", layer);
    const std::vector<double> before = tensor("three", 1, qkv), after = tensor("mixed", 1, qkv);
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(after[i], before[i] * (layer == 1 && i < 16 * 16 ? 1 / std::sqrt(8.0) : 1.0),
                  1e-6)
          << layer << " " << i;
  }
  // A codebook stays where the layer stays what it is.
  done("train --init-from mixed --attention linear/vq:codes=4" + kStill + " --out other");
  const std::string codes = "blocks.1.attention.codebook";
  const std::vector<double> was = tensor("mixed", 1, codes), is = tensor("other", 1, codes);
  for (size_t i = 0; i < was.size(); ++i) EXPECT_NEAR(is[i], was[i], 0.01) << i;  // a step moves it
}

// One bare attention has two projections that add up to q: both are scaled, D = 16.
TEST_F(InitFrom, BothProjectionsOfPairsAreScaled) {
  done(
      "train --task retrieval --associations 6 --layers 1 --heads 1 --dim 16 --batch 2 --attention "
      "softmax --steps 2 "
      "--out pairs");
  done("train --init-from pairs --attention soft-vq --codes 4" + kStill + " --out soft");
  for (const std::string name : {"blocks.0.qk.weight", "blocks.0.second_qk.weight"}) {
    const std::vector<double> before = tensor("pairs", 2, name), after = tensor("soft", 1, name);
    ASSERT_EQ(before.size(), size_t{32 * 16});
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(after[i], before[i] * (i < 16 * 16 ? 0.25 : 1.0), 1e-6) << name << " " << i;
  }
}

// The settings of an attention belong to it: the source's go to the same one, however it was asked
// for, and to no other.
TEST_F(InitFrom, SettingsBelongToTheirAttention) {
  done(kText + " --attention linear --feature dpfp --nu 2 --rule delta --steps 1 --out source");
  done("train --init-from source --attention linear" + kStill + " --out flag");
  put("same.toml", "attention = \"linear\"\nnu = 1\n");
  done("train --init-from source --config same.toml" + kStill + " --out file");
  for (const char* run : {"flag", "file"}) {
    expect_setting(run, "feature = \"dpfp\"");
    expect_setting(run, "rule = \"delta\"");
    expect_setting(run, std::string(run) == "file" ? "nu = 1" : "nu = 2");
  }
  put("other.toml", "attention = \"performer\"\nfeatures = 9\n");
  done("train --init-from source --config other.toml" + kStill + " --out other");
  expect_setting("other", "feature = \"positive\"");
  expect_setting("other", "features = 9");
  for (const char* key : {"\nrule = ", "\nnu = "})
    EXPECT_EQ(bytes("other/config.toml").find(key), std::string::npos) << key;
  done("train --init-from other --config same.toml --attention performer" + kStill +
       " --out flag-wins");
  expect_setting("flag-wins", "attention = \"performer\"");
  expect_setting("flag-wins", "features = 9");
}

TEST_F(InitFrom, APresetSetsTheAttentionToo) {
  done(kDigits + " --class-token --attention performer --feature trig --steps 1 --out source");
  done("train --init-from source --preset digits-linear --size 12 --levels 4" + kSmall + kStill +
       " --out other");
  expect_setting("other", "attention = \"linear\"");
  expect_setting("other", "feature = \"elu\"");
}

TEST_F(InitFrom, ATextOfOtherTokensIsRefused) {
  std::string text = bytes("text.txt");
  std::replace(text.begin(), text.end(), 'd', 'x');  // as many tokens, other ones
  put("other.txt", text);
  refused(3, "train --init-from softmax --data other.txt --out other",
          {"model.safetensors", "7 tokens", "character 'x' (U+0078) is new", "--init-from"});
  put("more.txt", text + "d");
  refused(3, "train --init-from softmax --data more.txt --out other",
          {"8", "character 'x' (U+0078) is new"});
  done(kCopy + " --steps 1 --out copy");
  refused(3, "train --init-from copy --task text --data text.txt --out other",
          {"was not trained on text"});
  EXPECT_FALSE(exists("other"));
}

// A text with fewer tokens: the model keeps its own, in their order, also when the run is resumed
// and when the whole text is learned again.
TEST_F(InitFrom, ATextOfFewerTokensKeepsTheVocabulary) {
  const auto vocabulary = [&](const std::string& run, int64_t step) {
    return SafetensorsFile::open(
               path(fmt::format("{}/checkpoints/step-{:08}/model.safetensors", run, step)))
        .metadata()
        .at("vocabulary");
  };
  std::string text = bytes("text.txt");
  std::erase(text, 'd');
  put("small.txt", text);
  done("train --init-from softmax --data small.txt --steps 4 --save-every 2 --out tuned");
  EXPECT_EQ(vocabulary("tuned", 4), vocabulary("softmax", 30));
  const double before =
      parse_json(done("eval softmax --data small.txt --json").out).at("loss").get<double>();
  EXPECT_NEAR(first_loss("tuned"), before, 1e-5);
  EXPECT_EQ(done("sample tuned --prompt dab --tokens 9").code, 0);
  done("train --init-from tuned --data text.txt --steps 2 --out again");
  EXPECT_EQ(vocabulary("again", 2), vocabulary("softmax", 30));

  fs::remove_all(path("tuned/checkpoints/step-00000004"));
  done("train --resume tuned");
  EXPECT_EQ(vocabulary("tuned", 4), vocabulary("softmax", 30));
  std::replace(text.begin(), text.end(), 'a', 'b');
  put("small.txt", text);
  refused(3, "train --resume tuned --steps 6", {"character 'a' (U+0061) is missing"});

  std::erase(text, 'c');
  put("small.txt", text);
  done("train --task text --data small.txt --length 16" + kSmall + " --steps 2 --out narrow");
  refused(3, "train --init-from narrow --data text.txt --out other",
          {"narrow/checkpoints/step-00000002/model.safetensors", "this text has 7",
           "character 'a' (U+0061), character 'c' (U+0063), character 'd' (U+0064)",
           "are new; leave them out"});
  refused(3, "train --init-from narrow --data text.txt --dry-run", {"are new"});
  EXPECT_FALSE(exists("other"));
}

TEST_F(InitFrom, InvalidRequestsAreRefused) {
  refused(3, "train --init-from nothing --out other", {"nothing", "does not exist"});
  refused(2, "train --init-from softmax --resume softmax", {"--init-from", "--resume"});
  const std::string file = "softmax/checkpoints/step-00000030/model.safetensors";
  std::string other = bytes(file);
  const size_t at = other.find("linea-2");
  ASSERT_NE(at, std::string::npos);
  put(file, other.replace(at, 7, "linea-9"));
  seal("softmax/checkpoints/step-00000030");
  refused(3, "train --init-from softmax --out other",
          {"model.safetensors", "'linea-9'", "'linea-2'"});
  refused(3, "train --resume softmax --steps 40", {"model.safetensors", "'linea-9'", "'linea-2'"});
}

}  // namespace
}  // namespace linea

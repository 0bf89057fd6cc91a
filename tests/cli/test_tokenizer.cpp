// --tokenizer: what a run on byte pairs keeps, scores and samples.
#include "data/vocabulary.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

const std::string kPairs =
    "train --task text --tokenizer bpe --vocab 270 --data text.txt --length 8" + kSmall;

class Tokenizer : public ProgramTest {
 protected:
  // Some words of one to four bytes a character.
  std::string put_words(const std::string& name, int count) const {
    const char* const words[] = {"the ", "caf\u00e9 ", "\u20ac7 ", "then\n", "\U0001F600 ", "a "};
    std::string text;
    for (int i = 0; i < count; ++i) text += words[i * i / 3 % 6];
    put(name, text);
    return text;
  }
};

TEST_F(Tokenizer, BitsPerByteCompareTokenizers) {
  const std::string text = put_words("text.txt", 600);
  for (const std::string tokenizer : {"char", "bytes", "bpe"}) {
    const std::string run = "run-" + tokenizer;
    const Outcome outcome = done(
        "train --task text --data text.txt --length 8 --steps 3 "
        "--eval-every 3 --tokenizer " +
        tokenizer + kSmall + " --out " + run);
    const nlohmann::json score = parse_json(done("eval --json " + run).out);
    // The bits of all tokens of the split, over its bytes.
    const double bytes = score["bits"].get<double>() * score["tokens"].get<double>() /
                         score["bits_per_byte"].get<double>();
    const auto size = static_cast<double>(text.size());
    EXPECT_NEAR(bytes, std::round(bytes), 1e-6);
    EXPECT_NEAR(bytes, size / 10, 20) << tokenizer;
    if (tokenizer == "bytes") {
      EXPECT_DOUBLE_EQ(score["bits_per_byte"], score["bits"]);
    } else {
      EXPECT_LT(score["bits_per_byte"], score["bits"]);
    }
    const nlohmann::json validation = parse_json(done("info --json " + run).out)["validation"];
    EXPECT_EQ(validation["val_bits_per_byte"], score["bits_per_byte"]);
    const std::string shown = fmt::format("{:.4f} bits/byte", score["bits_per_byte"].get<double>());
    EXPECT_NE(done("info " + run).out.find(shown), std::string::npos) << shown;
    EXPECT_NE(done("eval " + run).out.find(shown), std::string::npos) << shown;
    EXPECT_NE(outcome.err.find(shown), std::string::npos) << outcome.err;
    EXPECT_NE(done("eval " + run).out.find(tokenizer == "bpe" ? "bits/token" : "bits/char"),
              std::string::npos);
  }
  done(kDigits + " --steps 1 --eval-every 1 --out digits");
  EXPECT_FALSE(parse_json(done("eval --json digits").out).contains("bits_per_byte"));
  EXPECT_EQ(bytes("digits/metrics.jsonl").find("per_byte"), std::string::npos);
}

TEST_F(Tokenizer, ACarriedStateIsEvaluatedAlongTheText) {
  put_words("text.txt", 600);
  done("train --task text --data text.txt --length 8 --steps 3 --positions none --out run" +
       kSmall);
  const nlohmann::json score = parse_json(done("eval --json --context carried run").out),
                       windows = parse_json(done("eval --json run").out);
  EXPECT_FALSE(windows.contains("along"));
  double carried_sum = 0, windows_sum = 0;
  int64_t end = 0;
  for (const nlohmann::json& row : score["along"]) {
    EXPECT_EQ(row["first"], end);
    const auto tokens = static_cast<double>(row["end"].get<int64_t>() - end);
    end = row["end"];
    carried_sum += tokens * row["carried"].get<double>();
    windows_sum += tokens * row["windows"].get<double>();
  }
  EXPECT_EQ(end, score["tokens"]);
  const auto tokens = static_cast<double>(end);
  EXPECT_NEAR(carried_sum / tokens, score["loss"], 1e-9);
  EXPECT_NEAR(windows_sum / tokens, windows["loss"], 1e-9);
  const nlohmann::json& first = score["along"].at(0);
  EXPECT_EQ(first["end"], 8);
  EXPECT_NEAR(first["carried"], first["windows"], 1e-6);
  EXPECT_GT(std::abs(carried_sum - windows_sum), 1e-3);
  EXPECT_NE(done("eval --context carried run").out.find("\n0 to 7 "), std::string::npos);
}

TEST_F(Tokenizer, ByteRunsEndAtTheSameBitsAsTheAlias) {
  put_words("text.txt", 300);
  const std::string train = "train --task text --data text.txt --length 8 --steps 2" + kSmall;
  done(train + " --tokenizer bytes --out one");
  done(train + " --bytes --out other");
  done(train + " --bytes --tokenizer bytes --out both");
  expect_same_checkpoint("one", "other", 2);
  expect_same_checkpoint("one", "both", 2);
  EXPECT_NE(bytes("other/config.toml").find("tokenizer = \"bytes\""), std::string::npos);
  EXPECT_EQ(bytes("other/config.toml").find("bytes = "), std::string::npos);
  // The later of two names for one thing wins, as with --bias and --no-bias.
  const std::pair<const char*, const char*> later[] = {
      {"--bytes --tokenizer char", "char"},      {"--tokenizer char --bytes", "bytes"},
      {"--bytes --tokenizer bpe", "bpe"},        {"--tokenizer bpe --bytes", "bytes"},
      {"--no-bytes --tokenizer bytes", "bytes"}, {"--tokenizer bytes --no-bytes", "char"},
      {"--tokenizer bpe --no-bytes", "bpe"},     {"--bytes --tokenizer bpe --no-bytes", "bpe"}};
  for (const auto& [flags, tokenizer] : later) {
    const auto tokens = parse_json(done(train + " --dry-run --json " + flags).out)["tokens"];
    EXPECT_EQ(std::string(tokens > 256    ? "bpe"
                          : tokens == 256 ? "bytes"
                                          : "char"),
              tokenizer)
        << flags;
  }
  refused(2, train + " --vocab 300 --out no", {"--vocab has a meaning only with --tokenizer bpe"});
  refused(2, train + " --tokenizer bpe --vocab 256 --out no",
          {"--vocab is 256; it must be at least 257: the 256 bytes are tokens"});
  EXPECT_FALSE(exists("no"));
  // What earlier versions wrote.
  std::string old = bytes("other/config.toml");
  old.replace(old.find("tokenizer = \"bytes\""), std::string("tokenizer = \"bytes\"").size(),
              "bytes = true");
  put("old.toml", old);
  done("train --config old.toml --out from_old");
  expect_same_checkpoint("one", "from_old", 2);
  done("train --config old.toml --tokenizer char --out later");  // the later place decides
  EXPECT_NE(bytes("later/config.toml").find("tokenizer = \"char\""), std::string::npos);
  put("pairs.toml", bytes("later/config.toml") + "vocab = 300\n");
  refused(2, "train --config pairs.toml --out no",
          {"--vocab has a meaning only with --tokenizer bpe"});
  std::string pairs = bytes("pairs.toml");
  pairs.replace(pairs.find("\"char\""), 6, "\"bpe\"");
  put("pairs.toml", pairs);
  done("train --config pairs.toml --bytes --steps 1 --out no_pairs");  // without its vocab
  put("old.toml", old + "tokenizer = \"char\"\n");
  refused(2, "train --config old.toml --out no", {"old.toml", "'bytes' true", "contradict"});
}

TEST_F(Tokenizer, SamplesAreWholeCharacters) {
  put_words("text.txt", 600);
  done(kPairs + " --steps 3 --sample-every 3 --out run");
  const std::string sampled =
      done(Words{"sample", "run", "--prompt", "caf\u00e9", "--tokens", "200"}).out;
  EXPECT_EQ(sampled.rfind("caf\u00e9", 0), 0u);
  // Tokens, not characters: the same text in any case.
  const Vocabulary vocabulary = Vocabulary::parse(
      parse_json(done("info --json run/checkpoints/step-00000003/model.safetensors")
                     .out)["metadata"]["vocabulary"]
          .get<std::string>());
  EXPECT_EQ(vocabulary.size(), 270);
  EXPECT_EQ(vocabulary.decode(vocabulary.encode(sampled)), sampled);
  EXPECT_EQ(done(Words{"sample", "run", "--prompt", "caf\u00e9", "--tokens", "200", "--count", "2"})
                .out.rfind(sampled, 0),
            0u);
  EXPECT_TRUE(exists("run/samples/step-00000003.txt"));
  const nlohmann::json report = parse_json(done("judge run --count 2 --tokens 30 --json").out);
  EXPECT_EQ(report["copied_unit"], "bytes");
  EXPECT_GE(report["copied_run"].get<int64_t>(), 1);
}

TEST_F(Tokenizer, ARunContinuesOnItsPairs) {
  put_words("text.txt", 600);
  done(kPairs + " --steps 4 --out whole");
  done(kPairs + " --steps 2 --out run");
  done("train --resume run --steps 4");
  done("train --init-from run --steps 1 --out next");
  EXPECT_NE(done("info next").out.find("tokens      270"), std::string::npos);
  refused(2, "train --init-from run --tokenizer char --out other",
          {"--tokenizer was bpe in run and cannot change"});
  refused(2, "train --resume run --vocab 280 --steps 6", {"--vocab was 270 in run"});
  done(kText + " --steps 1 --out chars");
  refused(2, "train --init-from chars --tokenizer bpe --out other",
          {"--tokenizer was char in chars and cannot change"});
  // Another text is cut by the pairs of the model, and so it is when that run continues.
  put("other.txt", "quite other words: " + bytes("text.txt"));
  done("train --init-from run --data other.txt --steps 1 --out tuned");
  done("train --resume tuned --steps 2");
  const auto vocabulary = [&](const std::string& run, int step) {
    return parse_json(
        done(fmt::format("info --json {}/checkpoints/step-{:08}/model.safetensors", run, step))
            .out)["metadata"]["vocabulary"];
  };
  EXPECT_EQ(vocabulary("tuned", 2), vocabulary("run", 4));
  // Other text: other pairs.
  put("text.txt", "other " + bytes("text.txt"));
  refused(3, "train --resume run --steps 8", {"text"}, true);
}

TEST_F(Tokenizer, MoreTokensThanTheTextGives) {
  put_words("text.txt", 300);
  const Outcome outcome = done(
      "train --task text --tokenizer bpe --vocab 5000 --data text.txt "
      "--length 8 --steps 1" +
      kSmall + " --out run");
  EXPECT_NE(outcome.err.find("byte-pair tokens, fewer than the 5000 asked for"), std::string::npos)
      << outcome.err;
  done("eval run");
  put("one.txt", "abcdefghijklmnopqrstuvwxyz0123456789");
  done("train --task text --tokenizer bpe --data one.txt --length 4 --steps 1" + kSmall +
       " --out one");
  EXPECT_NE(done("info one").out.find("tokens      256"), std::string::npos);
}

}  // namespace
}  // namespace linea

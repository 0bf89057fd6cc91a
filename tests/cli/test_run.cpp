// A run: the files that it leaves, and that it can be had again.
#include "tests/cli/program.h"

#include "data/safetensors.h"

namespace linea {
namespace {

class Run : public ProgramTest {};

TEST_F(Run, WritesTheDocumentedFiles) {
  const Outcome outcome =
      done(kDigits +
           " --steps 12 --save-every 4 --sample-every 6 --eval-every 6 --keep-last 2 --out run");
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("bits/dim"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find_first_of("\r\x1b"), std::string::npos)
      << "a terminal's codes in a file";
  EXPECT_EQ(names_in("run"), (Words{"checkpoints", "commands.txt", "config.toml", "metrics.jsonl",
                                    "report.html", "samples"}));
  Words kept = names_in("run/checkpoints");
  kept.erase(std::remove(kept.begin(), kept.end(), "step-00000006"),
             kept.end());  // where it was the best
  EXPECT_EQ(kept, (Words{"step-00000008", "step-00000012"}));
  EXPECT_EQ(names_in("run/checkpoints/step-00000008"),
            (Words{"manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"}));
  EXPECT_EQ(names_in("run/samples"), (Words{"step-00000006.png", "step-00000012.png"}));
  EXPECT_EQ(bytes("run/samples/step-00000012.png").substr(0, 8), "\x89PNG\r\n\x1a\n");

  const nlohmann::json state = parse_json(bytes("run/checkpoints/step-00000008/state.json"));
  EXPECT_EQ(state["step"], 8);
  EXPECT_EQ(state["updates"], 8);

  int last = 0, losses = 0, looks = 0;
  for (const nlohmann::json& record : metrics("run")) {
    EXPECT_GE(record["step"], last);
    last = record["step"];
    if (record.contains("val_loss")) {
      ++looks;
      for (const char* key : {"val_bits", "val_accuracy", "val_tokens"})
        EXPECT_TRUE(record[key].is_number()) << key;
      continue;
    }
    ++losses;
    for (const char* key :
         {"loss", "bits", "lr", "grad_norm", "tokens_per_s", "elapsed_s", "peak_bytes"})
      EXPECT_TRUE(record[key].is_number()) << key << " in " << record;
    EXPECT_NEAR(record["bits"], record["loss"].get<double>() / std::log(2.0), 1e-12);
    EXPECT_GT(record["peak_bytes"], 1000);
  }
  EXPECT_EQ(last, 12);
  EXPECT_GE(losses, 3);
  EXPECT_EQ(looks, 2);
  if (kSanitized) {
    EXPECT_EQ(metrics("run").back()["val_tokens"], kDigitsVal * 144);
  } else {  // whole rows of at most 131,072 tokens
    EXPECT_EQ(metrics("run").back()["val_tokens"], 131040);
    EXPECT_EQ(metrics("run").back()["whole_val_tokens"], 144000);
  }
}

TEST_F(Run, EchoesItsMetricsAsJson) {
  const Outcome outcome = done(kCopy + " --steps 25 --json --out run");
  EXPECT_EQ(outcome.out, bytes("run/metrics.jsonl"));
  EXPECT_GE(metrics("run").size(), 4u);
}

TEST_F(Run, KeepsEveryCheckpointWhereAsked) {
  done(kCopy + " --steps 5 --save-every 1 --keep-last 0 --out run");
  EXPECT_EQ(names_in("run/checkpoints").size(), 5u);
}

TEST_F(Run, WritesASampleOfText) {
  put_text("text.txt", 2000);
  done(kText + " --steps 3 --out run");
  EXPECT_EQ(names_in("run/samples"), Words{"step-00000003.txt"});
  const std::string text = bytes("run/samples/step-00000003.txt");
  const auto tokens =
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  EXPECT_EQ(tokens, 501) << "500 tokens and the end of the line";
}

TEST_F(Run, IsAFunctionOfItsSettings) {
  put_text("text.txt", 2000);
  const std::string dropout =
      " --dropout 0.1 --accumulate 2 --steps 6 --save-every 3 --keep-last 0";
  for (const std::string& settings :
       {kDigits + " --class-token --attention linear" + dropout,
        kDigits + " --attention softmax --optimizer radam" + dropout,
        kText + " --feature dpfp --nu 2 --no-bias --tie --positions sinusoidal --weight-decay 0.1" +
            dropout}) {
    if (kSanitized && settings.find("--attention") != std::string::npos) continue;
    done(settings + " --out one");
    done(settings + " --out two");
    done("train --config one/config.toml --out three");
    done(settings + " --seed 2 --out four");
    EXPECT_EQ(bytes("one/config.toml"), bytes("three/config.toml"));
    for (const char* other : {"two", "three"}) {
      for (const int step : {3, 6}) expect_same_checkpoint("one", other, step);
      EXPECT_EQ(repeatable_metrics("one"), repeatable_metrics(other));
    }
    EXPECT_NE(bytes("one/checkpoints/step-00000006/model.safetensors"),
              bytes("four/checkpoints/step-00000006/model.safetensors"));
    EXPECT_NE(repeatable_metrics("one"), repeatable_metrics("four"));
    EXPECT_EQ(names_in("one/samples").size(), 1u);
    for (const std::string& sample : names_in("one/samples"))
      EXPECT_EQ(bytes("one/samples/" + sample), bytes("two/samples/" + sample));
    for (const char* run : {"one", "two", "three", "four"}) remove(run);
  }
}

TEST_F(Run, AppliesDefaultsPresetFileAndFlagsInOrder) {
  put("c.toml", "# a comment\nwarmup = 7\nbatch = 3  # another\nlr = 0.5\nbias = false\n");
  done(
      "train --preset copy --config c.toml --lr 0.25 --length 16 --steps 2 --layers 1 --dim 16 "
      "--ffn 32 --out run");
  const std::string config = bytes("run/config.toml");
  for (const char* line :
       {"\nlr = 0.25\n", "\nwarmup = 7\n", "\nbatch = 3\n", "\nbias = false\n",
        "\noptimizer = \"radam\"\n", "\nheads = 8\n", "\nlength = 16\n", "\nclip = 1\n"})
    EXPECT_NE(config.find(line), std::string::npos) << line << config;
}

TEST_F(Run, KeepsAwkwardNamesInItsConfig) {
  const Words names = {"it's.txt",  "we\"ird \\n, [x]=2.txt",
                       " lead.txt", "\xC3\xA9t\xC3\xA9.txt",
                       "[a]",       "a,b",
                       "true",      "a#b",
                       "'\"",       "a\nb"};
  for (size_t i = 0; i < names.size(); i += kSanitized ? 3 : 1) {
    const std::string& name = names[i];
    put_text(name, 1000);
    const Words settings = words_of("train --task text --length 8 --steps 1" + kSmall);
    done(settings + Words{"--data", name, "--out", "one"});
    done("train --config one/config.toml --out two");
    done("eval one");
    expect_same_checkpoint("one", "two", 1);
    remove("one");
    remove("two");
  }
}

TEST_F(Run, HelpNamesEveryFlagWithItsDefault) {
  const Outcome help = linea("train --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* part :
       {"--weight-decay", "--min-lr", "0.0001", "--save-every", "--no-bias", "--resume", "adamw"})
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
  EXPECT_EQ(linea("--help").code, 0);
  for (const char* command : {"train", "sample", "eval", "verify", "bench", "info"})
    EXPECT_NE(linea("--help").out.find(command), std::string::npos) << command;
}

}  // namespace
}  // namespace linea

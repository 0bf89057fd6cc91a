// The words of the parser, suggestions, help, and numbers that no command can use.
#include "tests/cli/program.h"

namespace linea {
namespace {

class CommandLine : public ProgramTest {
 protected:
  // The names under "Subcommands:" in a help text.
  static Words commands_in(const std::string& help) {
    Words names;
    const size_t at = help.find("Subcommands:\n");
    if (at == std::string::npos) return names;
    for (const std::string& line : lines_of(help.substr(at + 13))) {
      if (!line.starts_with("  ")) break;
      if (line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    return names;
  }

  void check_help(const Words& command) const {
    SCOPED_TRACE(testing::PrintToString(command));
    const std::string help = done(Words{"help"} + command).out;
    EXPECT_EQ(help, done(command + Words{"--help"}).out);
    EXPECT_NE(help.find("Usage: linea"), std::string::npos) << help;
    EXPECT_TRUE(command.empty() || help.find("Example:  ") != std::string::npos) << help;
    for (const std::string& line : lines_of(help)) {
      const auto columns =
          std::count_if(line.begin(), line.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
      EXPECT_LE(columns, 100) << line;
    }
    for (const std::string& name : commands_in(help)) check_help(command + Words{name});
  }
};

TEST_F(CommandLine, NamesWhatIsWrong) {
  refused(2, kCopy + " --steps 3 --steps 4 --out run", {"--steps is given twice"});
  refused(2, kCopy + " --config a --steps 3 --steps 4 --out run", {"--steps is given twice"});
  refused(2, kCopy + " --preset a --preset b --out run", {"--preset is given twice"});
  refused(2, kCopy + " --lr 1 --lr 1 --lr 1 --out run", {"--lr is given 3 times"});
  refused(2, "sample run --seed 1 --seed 2", {"--seed is given twice"});
  refused(2, kCopy + " --steps 1e3 --out run", {"--steps is '1e3'; it must be a whole number"});
  refused(2, "sample run --count 1e3", {"--count is '1e3'; it must be a whole number"});
  refused(2, "sample run --top-p x", {"--top-p is 'x'; it must be a number"});
  refused(2, "bench memory --lengths 8,x", {"--lengths is 'x'; it must be a whole number"});
  refused(2, "sample run --count", {"--count needs a value"});
  refused(2, "sample", {"RUN is required; see linea sample --help"});
  refused(2, "attend --out x", {"--in is required; see linea attend --help"});
  refused(2, "sample run --prompt a --prompt-file b",
          {"--prompt", "--prompt-file", "exclude each other: choose one"});
  refused(2, "eval run --json=5x", {"--json: 5x is neither true nor false"});
  refused(2, "", {"linea needs a command: train, sample,", "linea --help"});
  refused(2, "bench",
          {"linea bench needs a subcommand: attention, train, scaling, sample, memory"});
  // Numbers as they were typed.
  refused(2, "sample run --seed 18446744073709551615", {"--seed is 18446744073709551615;"});
  refused(2, kCopy + " --seed 18446744073709551615 --out run", {"--seed is 18446744073709551615;"});
  refused(2, kCopy + " --lr 1e400 --out run", {"--lr is 1e400;"});
  refused(2, kCopy + " --dropout 1.50 --out run", {"--dropout is 1.50;"});
  refused(2, "sample run --temperature 1e-400", {"--temperature is 1e-400;"});
  EXPECT_FALSE(exists("run"));
}

TEST_F(CommandLine, SuggestsOnlyWhatIsNear) {
  refused(2, "man --json", {"there is no option '--json'; see linea man --help"});
  refused(2, "attend --json", {"there is no option '--json'; see linea attend --help"});
  refused(2, "bench train --bogus", {"'--bogus'; see linea bench train --help"});
  refused(2, "bench train --stpes 3", {"'--stpes'; the nearest is '--steps'"});
  refused(2, "bench memroy", {"'memroy'; the nearest is 'memory'"});
  refused(2, "sample run --top_k 3", {"'--top_k'; the nearest is '--top-k'"});
  refused(2, "help trian", {"'trian'; the nearest is 'train'"});
  refused(2, "help bench quickly",
          {"linea bench has no command 'quickly'; see linea bench --help"});
  const auto setting = [&](const std::string& key, std::initializer_list<std::string> fragments) {
    put("c.toml", key + " = 3\n");
    refused(2, kCopy + " --steps 2 --out run --config c.toml", fragments);
  };
  setting("out", {"there is no setting 'out'; see linea train --help"});
  setting("model", {"there is no setting 'model'; see linea train --help"});
  setting("lenght", {"'lenght'; the nearest is 'length'"});
}

// Names of nanoGPT, minGPT, llm.c, Hugging Face and fast-transformers.
TEST_F(CommandLine, TranslatesNamesOfOtherTrainers) {
  const std::vector<std::pair<std::string, std::string>> flags = {
      {"learning_rate", "lr"},
      {"learning-rate", "lr"},
      {"n_layer", "layers"},
      {"n_head", "heads"},
      {"n_embd", "dim"},
      {"block_size", "length"},
      {"batch_size", "batch"},
      {"max_iters", "steps"},
      {"gradient_accumulation_steps", "accumulate"},
      {"eval_interval", "eval-every"},
      {"grad_clip", "clip"},
      {"num_hidden_layers", "layers"},
      {"per_device_train_batch_size", "batch"},
      {"num_iterations", "steps"},
      {"attention_type", "attention"},
      {"out_dir", "out"}};
  for (const auto& [theirs, ours] : flags)
    refused(2, fmt::format("train --{} 3 --out run", theirs),
            {fmt::format("there is no option '--{}'; here it is '--{}'", theirs, ours)});
  for (const auto& [theirs, ours] : flags) {
    if (theirs == "out_dir" || theirs == "learning-rate") continue;
    put("c.toml", theirs + " = 3\n");
    std::string key = ours;
    std::replace(key.begin(), key.end(), '-', '_');
    refused(2, kCopy + " --config c.toml --out run",
            {fmt::format("there is no setting '{}'; here it is '{}'", theirs, key)});
  }
  refused(2, "sample run --max_new_tokens 5", {"'--max_new_tokens'; here it is '--tokens'"});
  refused(2, "sample run --num_samples=5", {"'--num_samples'; here it is '--count'"});
  refused(2, "sample run --learning_rate 5", {"'--learning_rate'; see linea sample --help"});
}

TEST_F(CommandLine, HelpFitsIntoAHundredColumnsWithAnExample) {
  if (kSanitized) GTEST_SKIP() << "texts alone; the release build's tests do it";
  check_help({});
  EXPECT_EQ(commands_in(done("help bench").out),
            (Words{"attention", "train", "scaling", "sample", "memory"}));
  EXPECT_GE(commands_in(done("help").out).size(), 12u);
  // Continued under the description.
  const std::string help = done("help train").out;
  EXPECT_NE(help.find("\n" + std::string(30, ' ') + "ten logistic distributions"),
            std::string::npos)
      << help;
}

TEST_F(CommandLine, ThreadsAreCheckedAndCounted) {
  done(kDigits + " --steps 1 --out run");
  for (const std::string command :
       {"eval run", "sample run --out x.png", "bench attention --lengths 8", "approx"})
    refused(2, command + " --threads -7", {"-7"});
  refused(2, "eval run --threads -7", {"--threads is -7; it must be in 0..4096"});
  const Outcome many = done("sample run --count 1 --out x.png --threads 1000");
  EXPECT_NE(many.err.find("--threads 1000: this machine has "), std::string::npos) << many.err;
  const Outcome one = done("sample run --count 1 --out x.png --threads 1");
  EXPECT_EQ(one.err.find("this machine has"), std::string::npos) << one.err;
  EXPECT_NE(
      done("train --resume run --steps 2 --threads 999 --dry-run").err.find("--threads 999: "),
      std::string::npos);
}

TEST_F(CommandLine, SettingsMayBeginWithAByteOrderMark) {
  put("c.toml", "\xEF\xBB\xBFsteps = 1\nwarmup = 0\n");
  done(kCopy + " --config c.toml --out run");
  EXPECT_NE(bytes("run/config.toml").find("steps = 1\n"), std::string::npos);
  put("c.toml", "\xFF\xFEs\0t\0");
  refused(2, kCopy + " --config c.toml --out other", {"c.toml"});
}

TEST_F(CommandLine, TextsThatAreNotUtf8AreNamed) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "caf\xE9 ";
  put("text.txt", text);
  EXPECT_NE(
      done(kText + " --steps 1 --out run").err.find("text.txt: not UTF-8 at byte 4: read as bytes"),
      std::string::npos);
}

TEST_F(CommandLine, TrainingEndsWithTheNextCommand) {
  const auto end = [&](const std::string& line) { return lines_of(done(line).err).back(); };
  EXPECT_EQ(end(kDigits + " --steps 2 --sample-every 2 --out images"),
            "next: linea sample images --out grid.png");
  EXPECT_EQ(end(kCopy + " --steps 1 --out copy"), "next: linea eval copy");
  put_text("text.txt", 2000);
  EXPECT_EQ(end(kText + " --steps 1 --out text"), "next: linea sample text");
  const std::string err = done("train --resume images --steps 3").err;
  EXPECT_NE(err.find("checkpoints in images/checkpoints, samples in images/samples\n"),
            std::string::npos)
      << err;
  EXPECT_NE(done("train --resume copy --steps 2").err.find("checkpoints in copy/checkpoints\n"),
            std::string::npos);
}

}  // namespace
}  // namespace linea

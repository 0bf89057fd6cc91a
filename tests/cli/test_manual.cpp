// What the installed package has of the command line: version, manual page, completions.
#include <regex>
#include <set>

#include "tests/cli/program.h"

namespace linea {
namespace {

class ManualTest : public ProgramTest {
 protected:
  // A folder as users have it: a run, a file and a model.
  void SetUp() override {
    ProgramTest::SetUp();
    fs::create_directories(path("runs/one/checkpoints"));
    put("notes.txt", "");
    put("runs.safetensors", "");
  }
  static bool has_program(const std::string& name) {
    return std::system(("command -v " + name + " >/dev/null").c_str()) == 0;
  }
  // What the commands of a shell script print, which runs in the folder.
  std::string printed(const std::string& shell, const std::string& script) {
    put("ask", script);
    const std::string command = "cd '" + path("") + "' && " + shell + " ask >offered 2>complaints";
    EXPECT_EQ(std::system(command.c_str()), 0) << bytes("complaints");
    EXPECT_EQ(bytes("complaints"), "");
    return bytes("offered");
  }
  // What bash offers for the last of `words`, which are in shell quotes.
  std::string completed(const std::string& words) {
    put("linea.bash", done("completion bash").out);
    return printed("bash --norc",
                   "source linea.bash\nCOMP_WORDS=(" + words +
                       ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_linea\nprintf '%s' "
                       "\"${COMPREPLY[*]}\"\n");
  }
  // What zsh completes; its completion functions print their arguments.
  std::string completed_by_zsh(const std::string& words) {
    put("linea.zsh", done("completion zsh").out);
    return printed("zsh -f",
                   "compset() { [[ $1 == -P ]] && PREFIX=${PREFIX##$~2} }\n"
                   "compadd() { shift; print -rn -- ${(M)@:#$PREFIX*} }\n"
                   "_describe() { local list=$argv[-1]; print -rn -- ${(M)${(P)list}:#$PREFIX*} }\n"
                   "_files() { print -rn -- files $@ }\n"
                   "words=(" +
                       words + ") CURRENT=$#words PREFIX=$words[-1]\nsource ./linea.zsh\n");
  }
  // What fish completes, a line for each word.
  std::string completed_by_fish(const std::string& line) {
    put("linea.fish", done("completion fish").out);
    return printed("HOME=. fish --no-config", "source linea.fish\ncomplete -C '" + line +
                                                  "' | string replace -r '\\t.*' ''\ntrue\n");
  }
};

TEST_F(ManualTest, VersionIsThatOfInfo) {
  const std::string version = done("--version").out;
  EXPECT_EQ(version.rfind("linea 0.", 0), 0u);
  EXPECT_EQ(done("info").out.rfind(version, 0), 0u);
}

TEST_F(ManualTest, BashCompletesCommandsFlagsAndChoices) {
  EXPECT_EQ(completed("linea tr"), "train");
  EXPECT_EQ(completed("linea bench ''"), "attention train scaling sample memory");
  EXPECT_EQ(completed("linea train --pres"), "--preset");
  EXPECT_EQ(completed("linea train --preset mnist"),
            "mnist-cpu mnist-linear mnist-paper mnist-quick");
  EXPECT_EQ(completed("linea train --steps 3 --preset = mnist-p"), "mnist-paper");
  EXPECT_EQ(completed("linea train --attention soft"), "soft-vq softmax");
  EXPECT_EQ(completed("linea bench attention --attention vq,soft"), "vq,soft-vq vq,softmax");
  EXPECT_EQ(completed("linea attend --projection st"), "stratified");
  EXPECT_EQ(completed("linea eval run --split ''"), "val test");
  EXPECT_EQ(completed("linea attend --form re"), "recurrent");
  EXPECT_EQ(completed("linea sample run --device ''"), "cpu cuda");
  EXPECT_EQ(completed("linea train --dtype bf"), "bf16");
  EXPECT_EQ(completed("linea plot run --metrics loss,gr"), "loss,grad_norm");
  EXPECT_EQ(completed("linea presets digits-d"), "digits-demo");
  EXPECT_EQ(completed("linea completion ''"), "bash zsh fish");
  EXPECT_EQ(completed("linea data get tiny"), "tinyshakespeare");
  EXPECT_EQ(completed("linea help mem"), "");
  EXPECT_EQ(completed("linea help bench mem"), "memory");
}

// Folders for runs, folders and models for what loads a model, all files for other files; nothing
// for numbers and texts.
TEST_F(ManualTest, BashCompletesPaths) {
  EXPECT_EQ(completed("linea sample ''"), "runs runs.safetensors");
  EXPECT_EQ(completed("linea sample runs/"), "runs/one");
  EXPECT_EQ(completed("linea train --init-from = ru"), "runs runs.safetensors");
  EXPECT_EQ(completed("linea train --resume ru"), "runs");
  EXPECT_EQ(completed("linea train --out ru"), "runs");
  EXPECT_EQ(completed("linea runs ''"), "runs");
  EXPECT_EQ(completed("linea train --data no"), "notes.txt");
  EXPECT_EQ(completed("linea info no"), "notes.txt");
  EXPECT_EQ(completed("linea train --steps ''"), "");
  EXPECT_EQ(completed("linea sample run --prompt ''"), "");
}

// A flag that takes a text has words or paths, but for those that take any text.
TEST_F(ManualTest, EveryTextIsCompletedOrFree) {
  if (kSanitized) GTEST_SKIP() << "texts alone; the release build's tests do it";
  const std::set<std::string> free = {"--prompt",   "--stop",    "--class",       "--network",
                                      "--max-time", "--pattern", "--comm-timeout"};
  std::set<std::string> seen;
  const std::function<void(const std::string&)> check = [&](const std::string& command) {
    const std::string help = done("help" + command).out;
    bool commands = false;
    for (const std::string& line : lines_of(help)) {
      const Words words = words_of(line);
      if (commands && line.starts_with("  ") && line[2] != ' ') check(command + " " + words[0]);
      commands = commands || line == "Subcommands:";
      if (words.size() < 2 || !line.starts_with("  --") || words[1] != "TEXT") continue;
      if (free.count(words[0]) != 0) continue;
      if (!seen.insert(words[0] + command).second) continue;
      EXPECT_NE(completed("linea" + command + " " + words[0] + " ''"), "")
          << command << " " << words[0];
    }
  };
  check("");
  EXPECT_GE(seen.size(), 20u);
}

TEST_F(ManualTest, ZshCompletesTheSame) {
  const std::string script = done("completion zsh").out;
  for (const char* text : {"#compdef linea", "'train:", "'--preset:", "\"linea bench sample\""})
    EXPECT_NE(script.find(text), std::string::npos) << text;
  if (!has_program("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_EQ(completed_by_zsh("linea train --preset mnist"),
            "mnist-cpu mnist-linear mnist-paper mnist-quick");
  EXPECT_EQ(completed_by_zsh("linea train --preset=mnist-p"), "mnist-paper");
  EXPECT_EQ(completed_by_zsh("linea bench attention --attention vq,soft"), "soft-vq softmax");
  EXPECT_EQ(completed_by_zsh("linea eval run --split ''"), "val test");
  EXPECT_EQ(completed_by_zsh("linea presets digits-d"), "digits-demo");
  EXPECT_EQ(completed_by_zsh("linea help bench mem").substr(0, 7), "memory:");
  EXPECT_EQ(completed_by_zsh("linea tr").substr(0, 6), "train:");
  EXPECT_EQ(completed_by_zsh("linea train --pres").substr(0, 9), "--preset:");
  EXPECT_EQ(completed_by_zsh("linea train --out ''"), "files -/");
  EXPECT_EQ(completed_by_zsh("linea sample ''"), "files -g *.safetensors");
  EXPECT_EQ(completed_by_zsh("linea train --data ''"), "files");
  EXPECT_EQ(completed_by_zsh("linea train --steps ''"), "");
}

TEST_F(ManualTest, FishCompletesTheSame) {
  const std::string script = done("completion fish").out;
  for (const char* text : {"complete -c linea", "-l preset", "-a train"})
    EXPECT_NE(script.find(text), std::string::npos) << text;
  if (!has_program("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_EQ(completed_by_fish("linea train --preset mnist"),
            "mnist-cpu\nmnist-linear\nmnist-paper\nmnist-quick\n");
  EXPECT_EQ(completed_by_fish("linea train --preset=mnist-p"), "--preset=mnist-paper\n");
  EXPECT_EQ(completed_by_fish("linea bench attention --attention vq,soft"),
            "vq,softmax\nvq,soft-vq\n");
  EXPECT_EQ(completed_by_fish("linea eval run --split "), "test\nval\n");
  EXPECT_EQ(completed_by_fish("linea presets digits-d"), "digits-demo\n");
  EXPECT_EQ(completed_by_fish("linea help bench mem"), "memory\n");
  EXPECT_EQ(completed_by_fish("linea tr"), "train\n");
  EXPECT_EQ(completed_by_fish("linea bench "), "attention\nmemory\nsample\ntrain\n");
  EXPECT_EQ(completed_by_fish("linea train --pres"), "--preset\n");
  EXPECT_EQ(completed_by_fish("linea train --out ru"), "runs/\n");
  EXPECT_EQ(completed_by_fish("linea sample ru"), "runs.safetensors\nruns/\n");
  EXPECT_EQ(completed_by_fish("linea train --data no"), "notes.txt\n");
  EXPECT_EQ(completed_by_fish("linea train --steps "), "");
}

TEST_F(ManualTest, RefusesAnotherShell) {
  refused(2, "completion csh", {"csh", "bash", "zsh", "fish"});
}

TEST_F(ManualTest, ManualHasFilesAndEnvironment) {
  const std::string manual = done("man").out;
  for (const char* text : {".SH FILES", "metrics.jsonl", "XDG_CACHE_HOME", "OMP_NUM_THREADS"})
    EXPECT_NE(manual.find(text), std::string::npos) << text;
  const size_t section = manual.find(".SH ENVIRONMENT");
  ASSERT_NE(section, std::string::npos);
  const std::string environment = manual.substr(section);
  const std::regex variable("getenv\\(\"([A-Z_]+)\"\\)");
  std::set<std::string> read;
  for (const char* folder :
       {"tensor", "autograd", "nn", "data", "train", "bench", "judge", "lab", "cli"})
    for (const fs::path& file : fs::recursive_directory_iterator(fs::path(LINEA_SOURCE) / folder)) {
      if (file.extension() != ".cpp") continue;
      const std::string source = read_file(file);
      for (std::sregex_iterator found(source.begin(), source.end(), variable), end; found != end;
           ++found)
        read.insert((*found)[1]);
    }
  EXPECT_GE(read.size(), 5u);
  for (const std::string& name : read)
    EXPECT_NE(environment.find(name), std::string::npos) << name << " is read and not documented";
}

// By the programs that show it; each is silent.
TEST_F(ManualTest, ManualHasNoWarnings) {
  put("linea.1", done("man").out);
  if (has_program("groff")) {
    EXPECT_EQ(printed("sh", "groff -man -ww -Tutf8 linea.1 2>&1 >/dev/null"), "");
  }
  if (has_program("man")) {
    EXPECT_EQ(printed("sh", "man --warnings -E UTF-8 -l linea.1 2>&1 >/dev/null"), "");
  }
  if (has_program("mandoc")) {
    EXPECT_EQ(printed("sh", "mandoc -T lint -W warning linea.1 | grep -v 'missing date' || true"),
              "");
  }
}

// Every flag of a command's help is in the manual page.
TEST_F(ManualTest, ManualHasEveryFlag) {
  const std::string manual = done("man").out;
  EXPECT_EQ(manual.rfind(".TH LINEA 1", 0), 0u);
  for (const char* command : {"train", "sample", "eval", "attend", "verify", "bench memory"}) {
    const std::string help = done(std::string(command) + " --help").out;
    for (size_t at = 0; (at = help.find("\n  --", at)) != std::string::npos; at += 5) {
      std::string flag = help.substr(at + 3, help.find_first_of(" ,{\n", at + 3) - at - 3);
      for (size_t i = 0; (i = flag.find('-', i)) != std::string::npos; i += 2) flag.insert(i, "\\");
      EXPECT_NE(manual.find(flag), std::string::npos) << flag;
    }
  }
}

}  // namespace
}  // namespace linea

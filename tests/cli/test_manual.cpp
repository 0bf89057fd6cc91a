// What the installed package has of the command line: version, manual page, completions.
#include "tests/cli/program.h"

namespace linea {
namespace {

class ManualTest : public ProgramTest {
 protected:
  // What bash offers for the last of `words`, which are in shell quotes.
  std::string completed(const std::string& words) {
    put("linea.bash", done("completion bash").out);
    put("ask.bash",
        "source linea.bash\nCOMP_WORDS=(" + words +
            ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_linea\nprintf '%s' \"${COMPREPLY[*]}\"\n");
    const std::string command = "cd '" + path("") + "' && bash --norc ask.bash >offered";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return bytes("offered");
  }
};

TEST_F(ManualTest, VersionIsThatOfInfo) {
  const std::string version = done("--version").out;
  EXPECT_EQ(version.rfind("linea 0.", 0), 0u);
  EXPECT_EQ(done("info").out.rfind(version, 0), 0u);
}

TEST_F(ManualTest, BashCompletesCommandsFlagsAndChoices) {
  EXPECT_EQ(completed("linea tr"), "train");
  EXPECT_EQ(completed("linea bench ''"), "attention train sample memory");
  EXPECT_EQ(completed("linea train --pre"), "--preset");
  EXPECT_EQ(completed("linea train --preset mnist"),
            "mnist-cpu mnist-linear mnist-paper mnist-quick");
  EXPECT_EQ(completed("linea train --steps 3 --preset = mnist-p"), "mnist-paper");
  EXPECT_EQ(completed("linea train --attention soft"), "soft-vq softmax");
  EXPECT_EQ(completed("linea bench attention --attention vq,soft"), "vq,soft-vq vq,softmax");
  EXPECT_EQ(completed("linea attend --projection st"), "stratified");
  // A value of its own, which the shell completes as a file name.
  EXPECT_EQ(completed("linea train --out ''"), "");
  EXPECT_EQ(completed("linea sample ''"), "");
}

TEST_F(ManualTest, ZshHasTheSameWords) {
  const std::string script = done("completion zsh").out;
  for (const char* text : {"#compdef linea", "'train:", "'--preset:", "\"linea bench sample\""})
    EXPECT_NE(script.find(text), std::string::npos) << text;
  if (std::system("command -v zsh >/dev/null") != 0) GTEST_SKIP() << "zsh is not installed";
  put("linea.zsh", script);
  EXPECT_EQ(std::system(("zsh -n '" + path("linea.zsh") + "'").c_str()), 0);
}

TEST_F(ManualTest, RefusesAnotherShell) { refused(2, "completion fish", {"fish", "bash", "zsh"}); }

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

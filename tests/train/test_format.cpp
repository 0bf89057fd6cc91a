#include "train/format.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace linea {
namespace {

// What a shell makes of the word.
std::string in_shell(const std::string& word) {
  std::FILE* const shell =
      popen(("bash -c \"$(cat <<'EOF'\nprintf %s " + word + "\nEOF\n)\"").c_str(), "r");
  std::string text;
  for (int c; (c = std::fgetc(shell)) != EOF;) text.push_back(static_cast<char>(c));
  pclose(shell);
  return text;
}

TEST(ShellQuote, LeavesPlainPaths) {
  for (const char* path : {"runs/digits", "/tmp/a_b-1.2", "run:1,2=3+4@5%"})
    EXPECT_EQ(shell_quote(path), path);
}

TEST(ShellQuote, IsOneWordOfAShell) {
  for (const std::string path :
       {"my run", "it's", "a\"b", "$HOME", "`date`", "a;b&c|d", "~x", "*", "back\\slash", "#x",
        "!x", "Läufe/größe", "new\nline", "tab\tit's\\", "latin\xe9'", "(x)", "a  b", ""})
    EXPECT_EQ(in_shell(shell_quote(path)), path) << shell_quote(path);
  EXPECT_EQ(shell_quote("Läufe"), "'Läufe'") << "readable";
}

TEST(ShellQuote, IsNoOption) {
  EXPECT_EQ(shell_quote("-run"), "./-run");
  EXPECT_EQ(shell_quote("--my run"), "'./--my run'");
}

}  // namespace
}  // namespace linea

// Where a sampled text ends, and what it continues.
#include "tests/cli/program.h"

namespace linea {
namespace {

// A model of a text in ASCII.
class SampleText : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "abcde \nfgh"[(i + i / 10 * 3) % 10];
    put("text.txt", text);
    done(kText + " --steps 3 --out run");
  }
};

TEST_F(SampleText, AnInputThatCannotBeReadIsAnError) {
  const auto code_of = [&](const std::string& more) {
    const std::string command =
        "cd '" + path("") + "' && '" LINEA_PROGRAM "' sample run " + more + " >out 2>err";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  EXPECT_EQ(code_of("--interactive <."), 3);
  EXPECT_NE(bytes("err").find("standard input cannot be read"), std::string::npos) << bytes("err");
  for (const char* flag : {"--prompts ''", "--prompt-file ''"}) {
    EXPECT_EQ(code_of(flag), 2) << flag;
    EXPECT_NE(bytes("err").find("is empty; name a file"), std::string::npos) << bytes("err");
  }
}

// A line without an end does not fill the memory.
TEST_F(SampleText, ALineIsBounded) {
  put("lines.txt", std::string((size_t{1} << 20) + 5, 'a') + "\nab\r\n");
  const std::string command = "cd '" + path("") +
                              "' && '" LINEA_PROGRAM
                              "' sample run --interactive --tokens 3 <lines.txt >out 2>err";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(bytes("err"),
            "linea: a line of 1048581 bytes is too long, at most 1048576 can be read; shorten "
            "it\n");
  EXPECT_EQ(bytes("out").substr(0, 2), "ab");
}

TEST_F(SampleText, ContinuesEachLineOfAFile) {
  put("prompts.txt", "ab\n\ncdea\r\nb");
  const std::string more = " --tokens 20 --count 2 --seed 3",
                    out = done("sample run --prompts prompts.txt" + more).out;
  const std::string first = done("sample run --prompt ab" + more).out;
  EXPECT_EQ(out.substr(0, first.size()), first);
  Words starts;
  bool is_first = true;  // line of a text
  for (const std::string& line : lines_of(out)) {
    if (is_first) starts.push_back(line.substr(0, 4));
    is_first = line == "---";
  }
  ASSERT_EQ(starts.size(), 6u) << out;
  EXPECT_EQ(starts[2], "cdea");
  EXPECT_EQ(starts[3], "cdea");
  EXPECT_EQ(starts[4].substr(0, 1), "b");
  put("prompts.txt", "ab\nax\n");
  refused(3, "sample run --prompts prompts.txt", {"prompts.txt, line 2: character 'x'"});
  put("prompts.txt", "\n\n");
  refused(3, "sample run --prompts prompts.txt", {"every line is empty"});
  for (const std::string other : {"--prompt a", "--prompt-file prompts.txt", "--interactive"})
    refused(2, "sample run --prompts prompts.txt " + other, {"--prompts", "exclude each other"});
}

// The text ends before the first of the strings that is sampled after the prompt.
TEST_F(SampleText, EndsBeforeAStopString) {
  const std::string more = "sample run --prompt abcde --tokens 200 --seed 5",
                    whole = done(more).out.substr(0, 205);
  const auto end_of = [&](const std::string& stop) { return whole.find(stop, 5); };
  const std::string one = whole.substr(60, 3), other = whole.substr(40, 4);
  const auto stopped = [&](const Words& flags) { return done(words_of(more) + flags).out; };
  EXPECT_EQ(stopped({"--stop", one}), whole.substr(0, end_of(one)) + "\n");
  EXPECT_EQ(stopped({"--stop", one, "--stop", other}),
            whole.substr(0, std::min(end_of(one), end_of(other))) + "\n");
  EXPECT_EQ(stopped({"--stop", "xyz"}), whole + "\n") << "never sampled";
  EXPECT_EQ(stopped({"--stop", whole.substr(203) + "x"}), whole + "\n") << "only begun";
  // One text among several.
  EXPECT_EQ(stopped({"--stop", one, "--count", "3"}).substr(0, end_of(one) + 5),
            whole.substr(0, end_of(one)) + "\n---\n");
  refused(2, words_of("sample run --stop") + Words{""}, {"--stop is empty"});
  done(kDigits + " --steps 1 --out images");
  refused(2, "sample images --stop a", {"--stop", "images"});
}

}  // namespace
}  // namespace linea

// What the program writes where its output is a terminal: a pseudo-terminal of some width.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <regex>
#include <utility>

#include "cli/terminal.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

struct Environment {
  const char *term = "xterm", *no_color = nullptr;  // null: not set
  unsigned short columns = 80;
};

class Terminal : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Pair pair;
    if (pair.slave < 0) GTEST_SKIP() << "no pseudo-terminal: " << std::strerror(errno);
  }

  struct Pair {
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
    Pair() {
      if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    ~Pair() {
      if (master >= 0) close(master);
      if (slave >= 0) close(slave);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
  };

  // All that the program writes to the terminal that is its stdout and stderr.
  std::string shown(const std::string& line, const Environment& environment) const {
    Pair terminal;
    const int master = terminal.master, slave = terminal.slave;
    winsize size{};
    size.ws_col = environment.columns;
    size.ws_row = 24;
    EXPECT_EQ(ioctl(slave, TIOCSWINSZ, &size), 0);
    termios modes{};
    tcgetattr(slave, &modes);
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);  // "\n" stays as it is written
    tcsetattr(slave, TCSANOW, &modes);
    const pid_t pid = start(words_of(line), slave, environment);
    close(std::exchange(terminal.slave, -1));
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = read(master, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(count));
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
    return text;
  }

 private:
  pid_t start(const Words& arguments, int slave, const Environment& environment) const {
    Words words = Words{LINEA_PROGRAM} + arguments;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const auto set = [](const char* key, const char* value) {
      value == nullptr ? unsetenv(key) : setenv(key, value, 1);
    };
    const pid_t pid = fork();
    if (pid != 0) return pid;
    set("TERM", environment.term);
    set("NO_COLOR", environment.no_color);
    for (const int to : {STDOUT_FILENO, STDERR_FILENO}) dup2(slave, to);
    if (chdir(path("").c_str()) != 0) _exit(126);
    alarm(LINEA_PROGRAM_SECONDS);
    execv(argv[0], argv.data());
    _exit(127);
  }
};

// What a terminal would show between line ends and returns.
Words shown_lines(const std::string& text) {
  Words lines(1);
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

const std::string kRun = kCopy + " --steps 400 --out ";

TEST_F(Terminal, TheProgressLineIsRewrittenAndComplete) {
  const std::string text = shown(kRun + "run", {"xterm", nullptr, 200});
  EXPECT_NE(text.find('\r'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  bool found = false;
  for (const std::string& shown_line : shown_lines(text)) {
    if (shown_line.rfind("step 400/400", 0) != 0) continue;
    found = true;
    for (const char* part :
         {"loss ", "bits/char", "lr ", "|g| ", "tokens/s", "MiB", "elapsed", "left"})
      EXPECT_NE(shown_line.find(part), std::string::npos) << part << " is not in: " << shown_line;
  }
  EXPECT_TRUE(found) << text;
}

// Only what is rewritten is cut; what stays may wrap.
TEST_F(Terminal, TheProgressLineFitsANarrowTerminal) {
  const std::string text = shown(kRun + "run", {"xterm", nullptr, 40});
  size_t lines = 0;
  for (const std::string& shown_line : shown_lines(text)) {
    if (shown_line.rfind("step ", 0) != 0 || shown_line.find(": validation") != std::string::npos)
      continue;
    EXPECT_LT(shown_line.size(), 40u) << shown_line;
    ++lines;
  }
  EXPECT_GE(lines, 1u) << text;
}

// The first steps are slower than the others.
TEST_F(Terminal, NoTimeLeftIsShownBeforeTenSteps) {
  const std::string text = done(kCopy + " --steps 9 --out run").err;
  EXPECT_NE(text.find("step 9/9  loss "), std::string::npos) << text;
  EXPECT_NE(done("train --resume run --steps 18").err.find("step 18/18  loss "), std::string::npos);
  EXPECT_NE(done("train --resume run --steps 28").err.find("step 28/28  0s left  loss "),
            std::string::npos);
}

TEST_F(Terminal, ADumbTerminalGetsPlainLines) {
  for (const char* term : {"dumb", static_cast<const char*>(nullptr)}) {
    const std::string text =
        shown(kRun + (term == nullptr ? "unknown" : term), {term, nullptr, 40});
    EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos) << text;
    EXPECT_NE(text.find("step 400/400  0s left  loss "), std::string::npos) << text;
  }
}

TEST_F(Terminal, APreviewNeedsATerminalWithColors) {
  done(kDigits + " --steps 1 --out run");
  const std::string sample = "sample run --count 2 --out grid.png";
  EXPECT_NE(shown(sample, {"xterm", nullptr, 80}).find("\x1b[38;2;"), std::string::npos);
  EXPECT_NE(shown(sample, {"xterm", "", 80}).find("\x1b[38;2;"), std::string::npos)
      << "an empty NO_COLOR";
  EXPECT_EQ(shown(sample, {"xterm", "1", 80}).find('\x1b'), std::string::npos);
  EXPECT_EQ(shown(sample, {"dumb", nullptr, 80}).find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(done(sample).out.find('\x1b'), std::string::npos) << "no terminal";
}

// The longest line of a preview, in characters.
size_t preview_columns(const std::string& text) {
  size_t longest = 0;
  for (const std::string& line : shown_lines(text)) {
    size_t columns = 0;
    for (size_t at = 0; (at = line.find("\u2580", at)) != std::string::npos; at += 3) ++columns;
    longest = std::max(longest, columns);
  }
  return longest;
}

TEST_F(Terminal, APreviewHasAtMostEightyColumns) {
  done(kDigits + " --steps 1 --out run");
  const std::string sample = "sample run --count 8 --out grid.png";
  EXPECT_EQ(preview_columns(shown(sample, {"xterm", nullptr, 200})), 6u * 13 - 1);
  EXPECT_EQ(preview_columns(shown(sample, {"xterm", nullptr, 30})), 2u * 13 - 1);
}

TEST_F(Terminal, TrainingPreviewsItsSamples) {
  const std::string train = kDigits + " --steps 2 --sample-every 1 --out ";
  const std::string text = shown(train + "run", {"xterm", nullptr, 80});
  EXPECT_EQ(preview_columns(text), 6u * 13 - 1);
  EXPECT_EQ(shown(train + "plain", {"xterm", "1", 80}).find('\x1b'), std::string::npos);
  EXPECT_EQ(shown(train + "dumb", {"dumb", nullptr, 80}).find('\x1b'), std::string::npos);
  EXPECT_EQ(shown(train + "json --json", {"xterm", nullptr, 80}).find('\x1b'), std::string::npos);
  EXPECT_EQ(done(train + "file").out, "");
}

// A terminal of the usual width shows what one waits for.
TEST_F(Terminal, TheTimeLeftFitsEightyColumns) {
  const std::string text = shown(kRun + "run", {"xterm", nullptr, 80});
  EXPECT_TRUE(std::regex_search(
      text, std::regex("step 400/400  0s left  loss [0-9.]+  [0-9.kM]+ tokens/s")))
      << text;
}

TEST(Progress, DropsWholeFields) {
  const std::string line = "step 1/9  5s left  loss 2.5";
  EXPECT_EQ(whole_fields(line, 27), line);
  EXPECT_EQ(whole_fields(line, 26), "step 1/9  5s left");
  EXPECT_EQ(whole_fields(line, 17), "step 1/9  5s left");
  EXPECT_EQ(whole_fields(line, 16), "step 1/9");
  EXPECT_EQ(whole_fields(line, 8), "step 1/9");
  EXPECT_EQ(whole_fields(line, 7), "step 1/");
}

TEST(Progress, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_width("abc", 5), "abc");
  EXPECT_EQ(cut_to_width("abc", 3), "abc");
  EXPECT_EQ(cut_to_width("abc", 2), "ab");
  EXPECT_EQ(cut_to_width("a\xC3\xA9z", 2), "a\xC3\xA9");
  EXPECT_EQ(cut_to_width("a\xC3\xA9z", 1), "a");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

}  // namespace
}  // namespace linea
